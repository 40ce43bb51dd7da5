// Renders the account page: access, sessions and access tokens.
import { AccessPart } from './account-access.ts'
import { SessionsPart } from './account-sessions.ts'
import { TokensPart } from './account-tokens.ts'
import { currentLanguage } from './language.ts'
import { Pages, startPage, Top } from './page.ts'
import { leaveSession } from './page-session.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import { brand, type User } from './session.ts'
import { text } from './words-account.ts'

const App = ({ user, turn }: { user: User; turn: number }): VNode => {
  const [, setLanguage] = useState(currentLanguage())
  // Shown as a whole, because a list that appears later would move what is below it.
  const [loaded, setLoaded] = useState<readonly string[]>([])
  const load = (part: string) => () => setLoaded(parts => (parts.includes(part) ? parts : [...parts, part]))
  useEffect(() => {
    document.title = `${text('account')} · ${brand()}`
  })
  const out = () => void leaveSession(user)
  return html`<${Top} user=${user} onLanguage=${() => setLanguage(currentLanguage())} onLogout=${out}><${Pages} user=${user} current="account" /><//>
    <main id="content" key=${turn} class=${loaded.length < 3 ? 'unready' : ''}><h1>${text('account')}</h1>
      <${AccessPart} onLoaded=${load('access')} /><${SessionsPart} onLoaded=${load('sessions')} /><${TokensPart} user=${user} onLoaded=${load('tokens')} /></main>`
}

void startPage({ view: (user, turn) => html`<${App} user=${user} turn=${turn} />` })
