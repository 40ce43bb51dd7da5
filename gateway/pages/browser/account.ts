// Renders the account page: access, sessions and access tokens.
import { AccessPart } from './account-access.ts'
import { problemOf, toLogin } from './account-data.ts'
import { SessionsPart } from './account-sessions.ts'
import { TokensPart } from './account-tokens.ts'
import { Name, nameOf } from './console-parts.ts'
import { currentLanguage } from './language.ts'
import { LanguageSwitch } from './language-switch.ts'
import { html, render, useEffect, useState, type VNode } from './render.ts'
import { ask, brand, keptToken, logOut, onNews, type User } from './session.ts'
import { text } from './words-account.ts'

const App = ({ user }: { user: User }): VNode => {
  const [, setLanguage] = useState(currentLanguage())
  // Shown as a whole, because a list that appears later would move what is below it.
  const [loaded, setLoaded] = useState<readonly string[]>([])
  const load = (part: string) => () => setLoaded(parts => (parts.includes(part) ? parts : [...parts, part]))
  useEffect(() => {
    document.title = `${text('account')} · ${brand()}`
  })
  useEffect(
    () => onNews(({ kind, userId }) => kind === 'logout' && userId === user.id && location.replace(toLogin)),
    []
  )
  return html`<header class="top"><span class="brand"><span class="mark" aria-hidden="true"></span><bdi>${brand()}</bdi></span>
    <div class="me"><${Name} of=${nameOf(user)} /><${LanguageSwitch} short label=${text('language')} onChange=${() => setLanguage(currentLanguage())} />
    <button type="button" id="logout" onClick=${() => logOut(user).then(() => location.assign('/auth/login'))}>${text('logout')}</button></div></header>
    <main id="content" class=${loaded.length < 3 ? 'unready' : ''}><h1>${text('account')}</h1>
      <${AccessPart} onLoaded=${load('access')} /><${SessionsPart} onLoaded=${load('sessions')} /><${TokensPart} user=${user} onLoaded=${load('tokens')} /></main>`
}

const start = async (root: HTMLElement) => {
  if (keptToken() === undefined) return location.replace(toLogin)
  const answer = await ask<User>('/auth/me')
  if (answer.status === 401) return location.replace(toLogin)
  const page =
    answer.status === 200
      ? html`<${App} user=${answer.body} />`
      : html`<div class="stage"><main class="card"><h1>${brand()}</h1><p role="alert">${problemOf(answer)}</p>
        <button type="button" onClick=${() => location.reload()}>${text('retry')}</button></main></div>`
  render(page, root)
}

const root = document.getElementById('app')
if (root !== null) void start(root)
