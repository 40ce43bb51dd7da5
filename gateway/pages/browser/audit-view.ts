// What was done is read newest first, with what changed.
import { type ListOf, queryOf, useLoad, useRested } from './console-data.ts'
import { Name, Pager, Table, Waiting } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import { text } from './words-console.ts'

interface AuditItem {
  readonly at: string
  readonly actor: { readonly id: number | null; readonly username: string }
  readonly action: string
  readonly target: string
  readonly before: unknown
  readonly after: unknown
  readonly requestId: string
  readonly ip: string
  readonly hash: string
}

const json = (value: unknown): string => (value === null || value === undefined ? '–' : JSON.stringify(value, null, 1))

const Details = ({ item }: { item: AuditItem }): VNode => html`<details><summary>${text('details')}</summary>
  <dl class="facts"><div><dt>${text('before')}</dt><dd><pre>${json(item.before)}</pre></dd></div>
  <div><dt>${text('after')}</dt><dd><pre>${json(item.after)}</pre></dd></div>
  <div><dt>${text('address')}</dt><dd>${item.ip || '–'}</dd></div>
  <div><dt>Request</dt><dd><code>${item.requestId || '–'}</code></dd></div>
  <div><dt>Hash</dt><dd><code>${item.hash}</code></dd></div></dl></details>`

const Row = ({ item }: { item: AuditItem }): VNode => html`<tr>
  <td data-label=${text('when')}>${dateTime(item.at)}</td>
  <td data-label=${text('who')}><${Name} of=${item.actor.username || text('system')} /></td>
  <td data-label=${text('action')}><code>${item.action}</code></td>
  <td data-label=${text('subject')}><${Name} of=${item.target} /></td>
  <td data-label=${text('details')}><${Details} item=${item} /></td></tr>`

/** `path` is asked with `query` and a page. */
export const AuditTable = ({ path, query }: { path: string; query: string }): VNode => {
  const [page, setPage] = useState(1)
  const loaded = useLoad<ListOf<AuditItem>>(`${path}?${query === '' ? '' : `${query}&`}page=${page}&pageSize=25`)
  return html`<${Waiting} loaded=${loaded} />
    ${
      loaded.data !== undefined &&
      html`<${Table} label=${text('audit')} heads=${[text('when'), text('who'), text('action'), text('subject'), text('details')]}>
        ${loaded.data.items.map(item => html`<${Row} key=${item.hash} item=${item} />`)}<//>
      <${Pager} ...${loaded.data} onPage=${setPage} />`
    }`
}

export const AuditView = (): VNode => {
  const [user, setUser] = useState('')
  const [action, setAction] = useState('')
  const query = useRested(queryOf({ user: user.trim(), action: action.trim() }), 300)
  return html`<h1>${text('audit')}</h1>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <p class="grow"><label for="audit-user">${text('byUser')}</label><input id="audit-user" type="search" maxlength="256" value=${user} autocomplete="off"
        onInput=${(event: InputEvent) => setUser((event.target as HTMLInputElement).value)} /></p>
      <p class="grow"><label for="audit-action">${text('byAction')}</label><input id="audit-action" type="search" maxlength="64" value=${action} autocomplete="off"
        onInput=${(event: InputEvent) => setAction((event.target as HTMLInputElement).value)} /></p></form>
    <${AuditTable} key=${query} path="audit" query=${query} />`
}
