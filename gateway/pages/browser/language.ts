// Chooses the reader's language, Portuguese or English: the one they chose last, or else the one their browser prefers.

export type Language = 'pt' | 'en'

const KEPT = 'portaria.language'

const preferred = (): Language => {
  const kept = localStorage.getItem(KEPT)
  if (kept === 'pt' || kept === 'en') return kept
  return (navigator.languages[0] ?? navigator.language).toLowerCase().startsWith('pt') ? 'pt' : 'en'
}

let language = preferred()

const tell = () => {
  document.documentElement.lang = language === 'pt' ? 'pt-BR' : 'en'
}
tell()

export const currentLanguage = (): Language => language

export const chooseLanguage = (chosen: Language): void => {
  language = chosen
  localStorage.setItem(KEPT, chosen)
  tell()
}

/** Finds the text of a key, and replaces `{name}` in it with the value of that name. */
export const createText =
  <K extends string>(words: Readonly<Record<K, readonly [pt: string, en: string]>>) =>
  (key: K, values: Readonly<Record<string, string | number>> = {}): string =>
    words[key][language === 'pt' ? 0 : 1].replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''))

const locale = () => (language === 'pt' ? 'pt-BR' : 'en')

export const number = (value: number, digits = 0): string =>
  new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(value)

export const dateTime = (value: string | number): string => {
  const date = new Date(value)
  if (value === '' || Number.isNaN(date.getTime())) return '–'
  return new Intl.DateTimeFormat(locale(), { dateStyle: 'short', timeStyle: 'medium' }).format(date)
}
