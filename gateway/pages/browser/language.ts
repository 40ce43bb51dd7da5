// Chooses the reader's language (the one chosen last, or else the browser's), and writes numbers, times and providers in it.
import { html, useEffect, useState, type VNode } from './render.ts'
import { fact } from './session.ts'

type Language = 'pt' | 'en'

const KEPT = 'portaria.language'

const preferred = (): Language => {
  const kept = localStorage.getItem(KEPT)
  if (kept === 'pt' || kept === 'en') return kept
  return (navigator.languages[0] ?? navigator.language).toLowerCase().startsWith('pt') ? 'pt' : 'en'
}

let language: Language
/** Draws the page again, in another language; undefined: nothing can, because the page has failed. */
let redraw: (() => void) | undefined

const use = (chosen: Language) => {
  language = chosen
  document.documentElement.lang = language === 'pt' ? 'pt-BR' : 'en'
}
use(preferred())

/** The component that calls this is drawn again when the language changes. */
export const useLanguage = (): void => {
  const [, setTurn] = useState(0)
  useEffect(() => {
    redraw = () => setTurn(turn => turn + 1)
    return () => {
      redraw = undefined
    }
  }, [])
}

/** Lets readers change the language in place. */
export const LanguageSwitch = ({ label, isShort = false }: { label: string; isShort?: boolean }): VNode => {
  const choose = (chosen: Language) => {
    localStorage.setItem(KEPT, chosen)
    use(chosen)
    if (redraw === undefined) location.reload()
    else redraw()
  }
  const button = (to: Language, name: string) => html`
    <button type="button" lang=${to} aria-pressed=${language === to} title=${name} onClick=${() => choose(to)}>${isShort ? to.toUpperCase() : name}</button>`
  return html`<div class="switch" role="group" aria-label=${label}>${button('pt', 'Português')}${button('en', 'English')}</div>`
}

/** What may run from right to left does not affect the text around it (FSI and PDI, UAX #9), nor end that with marks of its own. */
const isolated = (value: string): string =>
  /[\u0300-\uffff]/.test(value) ? `\u2068${value.replace(/[\u2066-\u2069]/g, '')}\u2069` : value

/** Finds the text of a key, and replaces `{name}` in it with the value of that name. */
export const createText =
  <K extends string>(words: Readonly<Record<K, readonly [pt: string, en: string]>>) =>
  (key: K, values: Readonly<Record<string, string | number>> = {}): string =>
    words[key][language === 'pt' ? 0 : 1].replace(/\{(\w+)\}/g, (_, name: string) =>
      isolated(String(values[name] ?? ''))
    )

/** Finds the name of what the gateway names in one word; a word that is not known stays as it is. */
export const createNames = (words: Readonly<Record<string, readonly [pt: string, en: string]>>) => {
  const text = createText(words)
  return (word: string): string => (Object.hasOwn(words, word) ? text(word) : word)
}

const sourceName = createNames({
  ldap: ['diretório da empresa', 'company directory'],
  cloudidp: ['conta na nuvem', 'cloud account'],
  client: ['conta de serviço', 'service account']
})

/** Where a person comes from: the directory, or the provider by its own name. */
export const providerName = (provider: string): string =>
  (provider === 'cloudidp' && fact('cloud-name')) || sourceName(provider)

const locale = () => (language === 'pt' ? 'pt-BR' : 'en')

export const number = (value: number, digits = 0): string =>
  new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(value)

export const dateTime = (value: string | number, timeStyle: 'medium' | 'short' = 'medium'): string => {
  const date = new Date(value)
  if (value === '' || Number.isNaN(date.getTime())) return '–'
  return new Intl.DateTimeFormat(locale(), { dateStyle: 'short', timeStyle }).format(date)
}
