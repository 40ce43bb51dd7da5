// Renders the account page: access, sessions and access tokens.
import { AccessPart } from './account-access.ts'
import { problemOf, toLogin } from './account-data.ts'
import { SessionsPart } from './account-sessions.ts'
import { TokensPart } from './account-tokens.ts'
import { currentLanguage } from './language.ts'
import { startPage, Top } from './page.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import { brand, logOut, onNews, type User } from './session.ts'
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
  const out = () => void logOut(user).then(() => location.assign('/auth/login'))
  return html`<${Top} user=${user} onLanguage=${() => setLanguage(currentLanguage())} onLogout=${out} />
    <main id="content" class=${loaded.length < 3 ? 'unready' : ''}><h1>${text('account')}</h1>
      <${AccessPart} onLoaded=${load('access')} /><${SessionsPart} onLoaded=${load('sessions')} /><${TokensPart} user=${user} onLoaded=${load('tokens')} /></main>`
}

void startPage({ goToLogin: () => location.replace(toLogin), page: user => html`<${App} user=${user} />`, problemOf })
