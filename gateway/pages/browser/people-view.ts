// Lets Admins find people: those waiting for access first, anyone else by a few letters.
import { pageOf, queryInAddress, useAddressed } from './address.ts'
import { BulkAccess, everyone, MAX_PEOPLE, type Result } from './bulk-access.ts'
import { type ListOf, problemOf, queryOf, useLoad, useRested } from './console-data.ts'
import { type Column, Listing, listed, Name, State, timeOrNever, useActs } from './console-parts.ts'
import { Choice, Field, Filters } from './fields.ts'
import { number, providerName } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import { nameOf, type PersonItem } from './shapes.ts'
import { text } from './words-console.ts'

const PAGE_SIZE = 25
const REST_MS = 100

export const PersonState = ({ person }: { person: PersonItem }): VNode =>
  person.disabled
    ? html`<${State} is="bad">${text('disabled')}<//>`
    : html`<${State} is=${person.accessStatus === 'assigned' ? 'ok' : 'warn'}>${text(person.accessStatus)}<//>`

/** The filters of the list: how each is called, and its query. */
const FILTERS = {
  '': ['everybody', {}],
  unassigned: ['onlyUnassigned', { accessStatus: 'unassigned', disabled: 'false' }],
  assigned: ['onlyAssigned', { accessStatus: 'assigned', disabled: 'false' }],
  disabled: ['onlyDisabled', { disabled: 'true' }]
} as const
type Filter = keyof typeof FILTERS
const NAMES = Object.keys(FILTERS) as Filter[]

const byId = (people: readonly PersonItem[]) => new Map(people.map(person => [person.id, person]))

/** `query` has the list's parameters, which the link back contains. */
const columnsOf = (query: string, selectCell: (person: PersonItem) => VNode): Column<PersonItem>[] => [
  [text('selection'), selectCell],
  [text('name'), person => html`<a href=${`#/people/${person.id}${query}`}><${Name} of=${nameOf(person)} /></a>`],
  [
    text('username'),
    ({ username, provider }) => html`<${Name} of=${username} /> <small class="quiet">${providerName(provider)}</small>`
  ],
  [text('status'), person => html`<${PersonState} person=${person} />`],
  [text('profiles'), ({ profiles }) => listed(profiles)],
  [
    text('areas'),
    ({ areas }) =>
      html`<${Name} of=${listed(areas.slice(0, 3))} />${areas.length > 3 && text('moreAreas', { n: areas.length - 3 })}`
  ],
  [text('lastLogin'), ({ lastLoginAt }) => timeOrNever(lastLoginAt)]
]

export const PeopleView = (): VNode => {
  const [{ search, show, page }, change] = useAddressed({ search: '', show: '', page: '1' })
  const chosen = NAMES.find(name => name === show) ?? ''
  const filter = { search: useRested(search.trim(), REST_MS), ...FILTERS[chosen][1] }
  const query = queryOf({ ...filter, page: pageOf(page), pageSize: PAGE_SIZE })
  const loaded = useLoad<ListOf<PersonItem>>(`users?${query}`)
  const [selected, setSelected] = useState<ReadonlyMap<number, PersonItem>>(new Map())
  const [isOpen, setOpen] = useState(false)
  const { say, notices } = useActs()
  const { items: shown = [], total = 0 } = loaded.data ?? {}
  const toggle = (person: PersonItem) => {
    const next = new Map(selected)
    if (!next.delete(person.id)) next.set(person.id, person)
    setSelected(next)
  }
  const selectAll = async () => {
    if (total > MAX_PEOPLE) return say(text('tooManyPeople', { n: number(MAX_PEOPLE) }), true)
    say(text('loading'))
    // As it is typed now, which the list may not show yet.
    const answer = await everyone({ ...filter, search: search.trim() })
    if (answer.status !== 200) return say(problemOf(answer), true)
    say('')
    setSelected(byId(answer.body))
  }
  const settle = ({ words, isError, isOver }: Result) => {
    say(words, isError)
    if (!isOver) return
    setOpen(false)
    setSelected(new Map())
    loaded.reload()
  }
  const button = (id: string, words: string, run: () => unknown, kind = '') =>
    html`<button type="button" id=${id} class=${kind} onClick=${run}>${words}</button>`
  const selectCell = (
    person: PersonItem
  ) => html`<input type="checkbox" name="select" checked=${selected.has(person.id)}
    aria-label=${text('select', { name: nameOf(person).slice(0, 80) })} onChange=${() => toggle(person)} />`
  return html`<h1>${text('people')}</h1>
    <${Filters}>
      <${Field} grows id="search" label=${text('searchPeople')} type="search" value=${search} maxlength="256" dir="auto" onValue=${(search: string) => change({ search, page: '1' })} />
      <${Choice} id="filter" label=${text('show')} value=${chosen} options=${NAMES.map(name => [name, text(FILTERS[name][0])])} onValue=${(show: string) => change({ show, page: '1' })} />
    <//>
    ${notices}
    <div class="buttons" id="selection">
      ${button('select-page', text('selectPage'), () => setSelected(new Map([...selected, ...byId(shown)])))}
      ${button('select-all', text('selectAll', { n: number(total) }), selectAll)}
      ${
        selected.size > 0 &&
        html`<span role="status">${text('selected', { n: number(selected.size) })}</span>
        ${button('select-none', text('selectNone'), () => setSelected(new Map()))}
        ${button('bulk-open', text('bulkOpen'), () => setOpen(true), 'main')}`
      }</div>
    ${isOpen && selected.size > 0 && html`<${BulkAccess} people=${[...selected.values()]} onDone=${settle} onClose=${() => setOpen(false)} />`}
    <${Listing} of=${{ ...loaded, onPage: (to: number) => change({ page: String(to) }) }} label=${text('people')} columns=${columnsOf(queryInAddress(), selectCell)} keyOf=${({ id }: PersonItem) => id} named=${1} />`
}
