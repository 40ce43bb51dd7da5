// Shows what the route files grant to groups, and to how many people.
import { useList } from './console-data.ts'
import { Listing } from './console-parts.ts'
import { number } from './language.ts'
import { html, type VNode } from './render.ts'
import { text } from './words-people.ts'

interface Grant {
  readonly group: string
  readonly provider: string
  readonly tenant: string
  readonly profiles: readonly string[]
  readonly areas: readonly string[]
  readonly place: string
  readonly people: number
}

const row = ({ group, provider, tenant, profiles, areas, place, people }: Grant): VNode => html`<tr key=${place}>
  <th scope="row" data-label=${text('group')}><bdi>${group}</bdi>
    <small class="quiet"> ${text(provider === 'ldap' ? 'ofDirectory' : 'ofProvider')}${tenant !== '' && ` · ${text('tenant', { name: tenant })}`}</small></th>
  <td data-label=${text('profiles')}>${profiles.join(', ') || '–'}</td>
  <td data-label=${text('areas')}><bdi>${areas.join(', ') || '–'}</bdi></td>
  <td data-label=${text('members')}>${number(people)}</td>
  <td data-label=${text('place')}><code>${place}</code></td></tr>`

export const GrantsView = (): VNode => {
  const list = useList<Grant, { readonly peopleCutOff: number }>('grants')
  const { total, peopleCutOff = 0 } = list.data ?? {}
  const heads = [text('group'), text('profiles'), text('areas'), text('members'), text('place')]
  return html`<h1>${text('grants')}</h1><p class="quiet">${text('grantsNote')}</p>
    ${peopleCutOff > 0 && html`<p class="notice" data-error="true">${text('cutOffCount', { n: number(peopleCutOff) })}</p>`}
    ${total === 0 ? html`<p>${text('noGrants')}</p>` : html`<${Listing} of=${list} label=${text('grants')} heads=${heads} row=${row} />`}`
}
