// Shows what the route files grant to groups, and to how many people.
import { useList } from './console-data.ts'
import { type Column, Listing, listed } from './console-parts.ts'
import { number } from './language.ts'
import { html, type VNode } from './render.ts'
import type { GrantItem } from './shapes.ts'
import { text } from './words-console.ts'

const groupCell = ({ group, provider, tenant }: GrantItem): VNode => html`<bdi>${group}</bdi>
  <small class="quiet"> ${text(provider === 'ldap' ? 'ofDirectory' : 'ofProvider')}${tenant !== '' && ` · ${text('tenant', { name: tenant })}`}</small>`

export const GrantsView = (): VNode => {
  const list = useList<GrantItem, { readonly peopleCutOff: number }>('grants')
  const { peopleCutOff = 0 } = list.data ?? {}
  const columns: Column<GrantItem>[] = [
    [text('group'), groupCell],
    [text('profiles'), ({ profiles }) => listed(profiles)],
    [text('areas'), ({ areas }) => html`<bdi>${listed(areas)}</bdi>`],
    [text('people'), ({ people }) => number(people)],
    [text('place'), ({ place }) => html`<code>${place}</code>`]
  ]
  return html`<h1>${text('grants')}</h1><p class="quiet">${text('grantsNote')}</p>
    ${peopleCutOff > 0 && html`<p class="notice" data-error="true">${text('cutOffCount', { n: number(peopleCutOff) })}</p>`}
    <${Listing} of=${list} empty=${text('noGrants')} label=${text('grants')} columns=${columns} keyOf=${({ place }: GrantItem) => place} />`
}
