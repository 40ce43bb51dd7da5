// Admins find people: those who wait for access first, anybody by a few letters.
import { type ListOf, queryOf, useLoad, useRested } from './console-data.ts'
import { Name, nameOf, Pager, State, Table, Waiting } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import type { User } from './session.ts'
import { text } from './words-console.ts'

export interface Person extends User {
  readonly disabled: boolean
  readonly lastLoginAt: string
}

const PAGE_SIZE = 25
const REST_MS = 100

export const PersonState = ({ person }: { person: Person }): VNode =>
  person.disabled
    ? html`<${State} is="bad">${text('disabled')}<//>`
    : html`<${State} is=${person.accessStatus === 'assigned' ? 'ok' : 'warn'}>${text(person.accessStatus)}<//>`

const Row = ({ person }: { person: Person }): VNode => html`<tr>
  <th scope="row" data-label=${text('name')}><a href=${`#/people/${person.id}`}><${Name} of=${nameOf(person)} /></a></th>
  <td data-label=${text('username')}><${Name} of=${person.username} /> <small class="quiet">${person.provider}</small></td>
  <td data-label=${text('status')}><${PersonState} person=${person} /></td>
  <td data-label=${text('profiles')}>${person.profiles.join(', ') || '–'}</td>
  <td data-label=${text('areas')}><${Name} of=${person.areas.slice(0, 3).join(', ') || '–'} />${person.areas.length > 3 && ` +${person.areas.length - 3}`}</td>
  <td data-label=${text('lastLogin')}>${person.lastLoginAt === '' ? text('never') : dateTime(person.lastLoginAt)}</td>
</tr>`

export const PeopleView = (): VNode => {
  const [search, setSearch] = useState('')
  const [accessStatus, setAccessStatus] = useState('')
  const [page, setPage] = useState(1)
  const wanted = useRested(search.trim(), REST_MS)
  const query = queryOf({ search: wanted, accessStatus, page, pageSize: PAGE_SIZE })
  const loaded = useLoad<ListOf<Person>>(`users?${query}`)
  const first = (change: () => void) => {
    setPage(1)
    change()
  }
  return html`
    <h1>${text('people')}</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <p class="grow"><label for="search">${text('searchPeople')}</label>
        <input id="search" type="search" value=${search} maxlength="256" autocomplete="off" dir="auto"
          onInput=${(event: InputEvent) => first(() => setSearch((event.target as HTMLInputElement).value))} /></p>
      <p><label for="filter">${text('show')}</label>
        <select id="filter" value=${accessStatus} onChange=${(event: Event) => first(() => setAccessStatus((event.target as HTMLSelectElement).value))}>
          <option value="">${text('everybody')}</option>
          <option value="unassigned">${text('onlyUnassigned')}</option>
          <option value="assigned">${text('onlyAssigned')}</option>
        </select></p>
    </form>
    <${Waiting} loaded=${loaded} />
    ${
      loaded.data !== undefined &&
      html`<${Table} label=${text('people')} heads=${[text('name'), text('username'), text('status'), text('profiles'), text('areas'), text('lastLogin')]}>
        ${loaded.data.items.map(person => html`<${Row} key=${person.id} person=${person} />`)}
      <//>
      <${Pager} ...${loaded.data} onPage=${setPage} />`
    }`
}
