// Renders the account page: access, sessions and access tokens.
import { groupsOf, includesName } from './access-sources.ts'
import { SessionsPart } from './account-sessions.ts'
import { TokensPart } from './account-tokens.ts'
import { type ListOf, type Loaded, useLoad } from './console-data.ts'
import { SmallPage, startPage } from './page.ts'
import { html, type VNode } from './render.ts'
import type { AccessItem, SessionItem, TokenItem, User } from './shapes.ts'
import { text } from './words-account.ts'

const App = ({ user }: { user: User }): VNode => {
  const access = useLoad<AccessItem>('/auth/account/access')
  const sessions = useLoad<ListOf<SessionItem>>('/auth/sessions?pageSize=200')
  const tokens = useLoad<ListOf<TokenItem>>('/auth/tokens?pageSize=200')
  const isReady = [access, sessions, tokens].every(({ data, problem }) => data !== undefined || problem !== '')
  return html`<${SmallPage} user=${user} current="account" isReady=${isReady}>
    <${AccessPart} of=${access} /><${SessionsPart} of=${sessions} /><${TokensPart} of=${tokens} user=${user} /><//>`
}

void startPage({ view: (user, key) => html`<${App} key=${key} user=${user} />` })

/** All sources of a profile or an area of the person. */
const originsOf = (access: AccessItem, kind: 'profiles' | 'areas', name: string): string => {
  const byAdmin = includesName(access.assigned[kind], name) ? [text('byAdmin')] : []
  return [...byAdmin, ...groupsOf(access, kind, name).map(group => text('byGroup', { group }))].join('; ')
}

const Part = ({ access, kind, names }: { access: AccessItem; kind: 'profiles' | 'areas'; names: readonly string[] }) =>
  names.length === 0
    ? html`<dd>${text('none')}</dd>`
    : names.map(
        name =>
          html`<dd key=${name}><bdi>${name}</bdi> <small class="quiet"><bdi>${originsOf(access, kind, name)}</bdi></small></dd>`
      )

/** Shows people their current access, and where each part of it comes from. */
const AccessPart = ({ of: { data: access, problem } }: { of: Loaded<AccessItem> }): VNode => html`
  <section id="access-part"><h2 id="access">${text('access')}</h2>
    ${problem !== '' && html`<p role="alert">${problem}</p>`}
    ${access?.accessStatus === 'unassigned' && html`<p>${text('waiting')}</p>`}
    ${access?.groupsCutOff && html`<p>${text('cutOff')}</p>`}
    ${
      access !== undefined &&
      html`<dl><dt>${text('profiles')}</dt><${Part} access=${access} kind="profiles" names=${access.profiles} />
        <dt>${text('areas')}</dt><${Part} access=${access} kind="areas" names=${access.areas} />
        <dt>${text('mainArea')}</dt><${Part} access=${access} kind="areas" names=${access.areaPrincipal === '' ? [] : [access.areaPrincipal]} /></dl>`
    }</section>`
