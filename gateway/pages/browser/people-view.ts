// Lets Admins find people: those waiting for access first, anyone else by a few letters.
import type { AccessSources } from './access-sources.ts'
import { pageOf, queryInAddress, useAddressed } from './address.ts'
import { BulkAccess, idsOf } from './bulk-access.ts'
import { type ListOf, queryOf, useLoad, useRested } from './console-data.ts'
import { Name, nameOf, type Outcome, OutcomeLine, Pager, State, Table, Waiting } from './console-parts.ts'
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

/** The filters of the list, and the query of each. */
const SHOWN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '': {},
  unassigned: { accessStatus: 'unassigned', disabled: 'false' },
  assigned: { accessStatus: 'assigned', disabled: 'false' },
  disabled: { disabled: 'true' }
}

const CHOICES = [
  ['', 'everybody'],
  ['unassigned', 'onlyUnassigned'],
  ['assigned', 'onlyAssigned'],
  ['disabled', 'onlyDisabled']
] as const

export const PeopleView = (): VNode => {
  const [{ search, show, page }, change] = useAddressed({ search: '', show: '', page: '1' })
  const filter = { search: useRested(search.trim(), REST_MS), ...(Object.hasOwn(SHOWN, show) ? SHOWN[show] : {}) }
  const query = queryOf({ ...filter, page: pageOf(page), pageSize: PAGE_SIZE })
  const loaded = useLoad<ListOf<Person>>(`users?${query}`)
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set())
  const [isOpen, setOpen] = useState(false)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const shown = loaded.data?.items ?? []
  const toggle = (id: number) => {
    const next = new Set(selected)
    if (!next.delete(id)) next.add(id)
    setSelected(next)
  }
  const selectAll = async () => {
    const ids = await idsOf(filter)
    if (ids === undefined) setOutcome({ words: text('unreachable'), isError: true })
    else setSelected(new Set(ids))
  }
  const settle = (words: string, isError: boolean) => {
    setOutcome({ words, isError })
    if (words === text('bulkNothing')) return
    setOpen(false)
    setSelected(new Set())
    loaded.reload()
  }
  return html`
    <h1>${text('people')}</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <p class="grow"><label for="search">${text('searchPeople')}</label>
        <input id="search" type="search" value=${search} maxlength="256" autocomplete="off" dir="auto"
          onInput=${(event: InputEvent) => change({ search: (event.target as HTMLInputElement).value, page: '1' })} /></p>
      <p><label for="filter">${text('show')}</label>
        <select id="filter" value=${Object.hasOwn(SHOWN, show) ? show : ''} onChange=${(event: Event) => change({ show: (event.target as HTMLSelectElement).value, page: '1' })}>
          ${CHOICES.map(([value, key]) => html`<option key=${value} value=${value}>${text(key)}</option>`)}</select></p>
    </form>
    <${OutcomeLine} outcome=${outcome} />
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
    <${Waiting} loaded=${loaded} />
    ${
      loaded.data !== undefined &&
      html`<${Table} label=${text('people')} heads=${[html`<span class="hidden">${text('select', { name: '' })}</span>`, text('name'), text('username'), text('status'), text('profiles'), text('areas'), text('lastLogin')]}>
        ${loaded.data.items.map(person => html`<${Row} key=${person.id} person=${person} query=${queryInAddress()} isSelected=${selected.has(person.id)} onSelect=${() => toggle(person.id)} />`)}
      <//>
      <${Pager} ...${loaded.data} onPage=${(to: number) => change({ page: String(to) })} />`
    }`
}
