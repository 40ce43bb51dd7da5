// Renders the account page: access, sessions and access tokens.

import { type AccessSources, groupsOf, includesName } from './access-sources.ts'
import { SessionsPart } from './account-sessions.ts'
import { TokensPart } from './account-tokens.ts'
import { usePart } from './console-data.ts'
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

interface Access extends AccessSources {
  readonly profiles: readonly string[]
  readonly areas: readonly string[]
  readonly areaPrincipal: string
  readonly accessStatus: 'assigned' | 'unassigned'
}

/** All sources of a profile or an area of the person. */
const originsOf = (access: Access, kind: 'profiles' | 'areas', name: string): string => {
  const byAdmin = includesName(access.assigned[kind], name) ? [text('byAdmin')] : []
  return [...byAdmin, ...groupsOf(access, kind, name).map(group => text('byGroup', { group }))].join('; ')
}

const Part = ({ access, kind, names }: { access: Access; kind: 'profiles' | 'areas'; names: readonly string[] }) =>
  names.length === 0
    ? html`<dd>${text('none')}</dd>`
    : names.map(
        name =>
          html`<dd key=${name}><bdi>${name}</bdi> <small class="quiet"><bdi>${originsOf(access, kind, name)}</bdi></small></dd>`
      )

/** Shows people their current access, and where each part of it comes from. */
const AccessPart = ({ onLoaded }: { onLoaded: () => void }): VNode => {
  const { data: access, problem } = usePart<Access>('/auth/account/access', onLoaded)
  return html`<section id="access-part"><h2 id="access">${text('access')}</h2>
    ${problem !== '' && html`<p role="alert">${problem}</p>`}
    ${access === undefined && problem === '' && html`<p class="quiet" role="status">${text('loading')}</p>`}
    ${access?.accessStatus === 'unassigned' && html`<p>${text('waiting')}</p>`}
    ${access?.groupsCutOff && html`<p>${text('cutOff')}</p>`}
    ${
      access !== undefined &&
      html`<dl><dt>${text('profiles')}</dt><${Part} access=${access} kind="profiles" names=${access.profiles} />
        <dt>${text('areas')}</dt><${Part} access=${access} kind="areas" names=${access.areas} />
        <dt>${text('mainArea')}</dt><${Part} access=${access} kind="areas" names=${access.areaPrincipal === '' ? [] : [access.areaPrincipal]} /></dl>`
    }</section>`
}
