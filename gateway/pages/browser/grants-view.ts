// Shows what the route files grant to groups, and to how many people.
import { type ListOf, useLoad } from './console-data.ts'
import { Pager, Table, Waiting } from './console-parts.ts'
import { number } from './language.ts'
import { html, useState, type VNode } from './render.ts'
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
  const [page, setPage] = useState(1)
  const loaded = useLoad<ListOf<Grant> & { readonly peopleCutOff: number }>(`grants?page=${page}&pageSize=50`)
  const { data } = loaded
  const heads = [text('group'), text('profiles'), text('areas'), text('members'), text('place')]
  return html`<h1>${text('grants')}</h1><p class="quiet">${text('grantsNote')}</p>
    <${Waiting} loaded=${loaded} />
    ${data !== undefined && data.peopleCutOff > 0 && html`<p class="notice" data-error="true">${text('cutOffCount', { n: number(data.peopleCutOff) })}</p>`}
    ${data?.total === 0 && html`<p>${text('noGrants')}</p>`}
    ${
      data !== undefined &&
      data.total > 0 &&
      html`<${Table} label=${text('grants')} heads=${heads}>${data.items.map(row)}<//>
      <${Pager} ...${data} onPage=${setPage} />`
    }`
}
