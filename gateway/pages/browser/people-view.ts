// Lets Admins find people: those waiting for access first, anyone else by a few letters.
import type { AccessSources } from './access-sources.ts'
import { pageOf, queryInAddress, useAddressed } from './address.ts'
import { BulkAccess, idsOf } from './bulk-access.ts'
import { type ListOf, queryOf, useLoad, useRested } from './console-data.ts'
import { Listing, Name, nameOf, State, useActs } from './console-parts.ts'
import { dateTime, number } from './language.ts'
import { providerName } from './provider-name.ts'
import { html, useState, type VNode } from './render.ts'
import type { User } from './session.ts'
import { text } from './words-people.ts'

export interface Person extends User, AccessSources {
  readonly disabled: boolean
  readonly lastLoginAt: string
}

const PAGE_SIZE = 25
const REST_MS = 100

export const PersonState = ({ person }: { person: Person }): VNode =>
  person.disabled
    ? html`<${State} is="bad">${text('disabled')}<//>`
    : html`<${State} is=${person.accessStatus === 'assigned' ? 'ok' : 'warn'}>${text(person.accessStatus)}<//>`

interface RowProps {
  readonly person: Person
  /** The list's parameters, which the link back contains. */
  readonly query: string
  readonly isSelected: boolean
  readonly onSelect: () => void
}

const Row = ({ person, query, isSelected, onSelect }: RowProps): VNode => html`<tr>
  <td data-label=${text('select', { name: '' })}><input type="checkbox" name="select" checked=${isSelected}
    aria-label=${text('select', { name: nameOf(person).slice(0, 80) })} onChange=${onSelect} /></td>
  <th scope="row" data-label=${text('name')}><a href=${`#/people/${person.id}${query === '' ? '' : `?${query}`}`}><${Name} of=${nameOf(person)} /></a></th>
  <td data-label=${text('username')}><${Name} of=${person.username} /> <small class="quiet">${providerName(person.provider)}</small></td>
  <td data-label=${text('status')}><${PersonState} person=${person} /></td>
  <td data-label=${text('profiles')}>${person.profiles.join(', ') || '–'}</td>
  <td data-label=${text('areas')}><${Name} of=${person.areas.slice(0, 3).join(', ') || '–'} />${person.areas.length > 3 && text('moreAreas', { n: person.areas.length - 3 })}</td>
  <td data-label=${text('lastLogin')}>${person.lastLoginAt === '' ? text('never') : dateTime(person.lastLoginAt)}</td>
</tr>`

/** The filters of the list: how each is called, and its query. */
const FILTERS = {
  '': ['everybody', {}],
  unassigned: ['onlyUnassigned', { accessStatus: 'unassigned', disabled: 'false' }],
  assigned: ['onlyAssigned', { accessStatus: 'assigned', disabled: 'false' }],
  disabled: ['onlyDisabled', { disabled: 'true' }]
} as const
type Filter = keyof typeof FILTERS
const NAMES = Object.keys(FILTERS) as Filter[]

export const PeopleView = (): VNode => {
  const [{ search, show, page }, change] = useAddressed({ search: '', show: '', page: '1' })
  const chosen = NAMES.find(name => name === show) ?? ''
  const filter = { search: useRested(search.trim(), REST_MS), ...FILTERS[chosen][1] }
  const query = queryOf({ ...filter, page: pageOf(page), pageSize: PAGE_SIZE })
  const loaded = useLoad<ListOf<Person>>(`users?${query}`)
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set())
  const [isOpen, setOpen] = useState(false)
  const { say, notices } = useActs()
  const shown = loaded.data?.items ?? []
  const toggle = (id: number) => {
    const next = new Set(selected)
    if (!next.delete(id)) next.add(id)
    setSelected(next)
  }
  const selectAll = async () => {
    const ids = await idsOf(filter)
    if (ids === undefined) say(text('unreachable'), true)
    else setSelected(new Set(ids))
  }
  const settle = (words: string, isError: boolean) => {
    say(words, isError)
    if (words === text('bulkNothing')) return
    setOpen(false)
    setSelected(new Set())
    loaded.reload()
  }
  const onPage = (to: number) => change({ page: String(to) })
  const heads = [
    html`<span class="hidden">${text('select', { name: '' })}</span>`,
    text('name'),
    text('username'),
    text('status'),
    text('profiles'),
    text('areas'),
    text('lastLogin')
  ]
  const row = (person: Person) =>
    html`<${Row} key=${person.id} person=${person} query=${queryInAddress()} isSelected=${selected.has(person.id)} onSelect=${() => toggle(person.id)} />`
  return html`
    <h1>${text('people')}</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <p class="grow"><label for="search">${text('searchPeople')}</label>
        <input id="search" type="search" value=${search} maxlength="256" autocomplete="off" dir="auto"
          onInput=${(event: InputEvent) => change({ search: (event.target as HTMLInputElement).value, page: '1' })} /></p>
      <p><label for="filter">${text('show')}</label>
        <select id="filter" value=${chosen} onChange=${(event: Event) => change({ show: (event.target as HTMLSelectElement).value, page: '1' })}>
          ${NAMES.map(name => html`<option key=${name} value=${name}>${text(FILTERS[name][0])}</option>`)}</select></p>
    </form>
    ${notices}
    <div class="buttons" id="selection">
      <button type="button" id="select-page" onClick=${() => setSelected(new Set([...selected, ...shown.map(({ id }) => id)]))}>${text('selectPage')}</button>
      <button type="button" id="select-all" onClick=${selectAll}>${text('selectAll', { n: number(loaded.data?.total ?? 0) })}</button>
      ${
        selected.size > 0 &&
        html`<span role="status">${text('selected', { n: number(selected.size) })}</span>
        <button type="button" id="select-none" onClick=${() => setSelected(new Set())}>${text('selectNone')}</button>
        <button type="button" class="main" id="bulk-open" onClick=${() => setOpen(true)}>${text('bulkOpen')}</button>`
      }</div>
    ${isOpen && selected.size > 0 && html`<${BulkAccess} ids=${[...selected]} onDone=${settle} onClose=${() => setOpen(false)} />`}
    <${Listing} of=${{ ...loaded, onPage }} label=${text('people')} heads=${heads} row=${row} keepsHeads />`
}
