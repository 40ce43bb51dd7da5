// Shows people their current access, and where each part of it comes from.
import { type AccessSources, groupsOf, includesName } from './access-sources.ts'
import { usePart } from './account-data.ts'
import { html, type VNode } from './render.ts'
import { text } from './words-account.ts'

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

export const AccessPart = ({ onLoaded }: { onLoaded: () => void }): VNode => {
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
