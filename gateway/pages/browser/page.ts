// Begins the console and the account page: who is logged in, and the header with brand, person and language.
import { Name, nameOf } from './console-parts.ts'
import { LanguageSwitch } from './language-switch.ts'
import { type ComponentChildren, html, render, type VNode } from './render.ts'
import { type Answer, ask, brand, keptToken, type User } from './session.ts'
import { text } from './words-console.ts'

interface TopProps {
  readonly user: User
  /** Where the brand leads; undefined: nowhere. */
  readonly home?: string
  readonly onLanguage: () => void
  readonly onLogout: () => void
  readonly children?: ComponentChildren
}

export const Top = ({ user, home, onLanguage, onLogout, children }: TopProps): VNode => html`
  <header class="top"><${home === undefined ? 'span' : 'a'} class="brand" href=${home}><span class="mark" aria-hidden="true"></span><bdi>${brand()}</bdi><//>
    <div class="me"><${Name} of=${nameOf(user)} /><${LanguageSwitch} short label=${text('language')} onChange=${onLanguage} />
    <button type="button" id="logout" onClick=${onLogout}>${text('logout')}</button></div>${children}</header>`

interface PageParts {
  readonly goToLogin: () => void
  readonly page: (user: User) => VNode
  readonly problemOf: (answer: Answer<unknown>) => string
}

/** Renders the page of the person who is logged in, or why it is not known who that is. */
export const startPage = async ({ goToLogin, page, problemOf }: PageParts): Promise<void> => {
  const root = document.getElementById('app')
  if (root === null) return
  if (keptToken() === undefined) return goToLogin()
  const answer = await ask<User>('/auth/me')
  if (answer.status === 401) return goToLogin()
  const shown =
    answer.status === 200
      ? page(answer.body)
      : html`<div class="stage"><main class="card"><h1>${brand()}</h1><p role="alert">${problemOf(answer)}</p>
        <button type="button" onClick=${() => location.reload()}>${text('retry')}</button></main></div>`
  render(shown, root)
}
