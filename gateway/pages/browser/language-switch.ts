// Lets readers change the language in place.
import { chooseLanguage, currentLanguage, type Language } from './language.ts'
import { html, type VNode } from './render.ts'

interface Props {
  readonly label: string
  readonly onChange: () => void
  readonly short?: boolean
}

export const LanguageSwitch = ({ label, onChange, short = false }: Props): VNode => {
  const button = (language: Language, name: string) => html`
    <button type="button" lang=${language} aria-pressed=${currentLanguage() === language} title=${name} onClick=${() => {
      chooseLanguage(language)
      onChange()
    }}>${short ? language.toUpperCase() : name}</button>`
  return html`<div class="switch" role="group" aria-label=${label}>${button('pt', 'Português')}${button('en', 'English')}</div>`
}
