// Which route asks for which role is drawn as a grid, and each cell tells why.
import { admin, type ListOf, problemOf } from './console-data.ts'
import { Pager, Table } from './console-parts.ts'
import { ExplainPanel, type Question } from './explain-panel.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import { text } from './words-console.ts'

interface RouteRow {
  readonly id: string
  readonly path: string
  readonly methods: readonly string[]
  readonly upstream: string
  readonly public: boolean
  readonly kind: string
  readonly place: string
  readonly allowed: Readonly<Record<string, boolean>>
}

const ROLES = ['anonymous', 'cloud-unassigned', 'unassigned', 'Agente', 'Supervisor', 'Admin'] as const
const SHOWN = 50
const ASKED = 200

const loadAll = async (): Promise<readonly RouteRow[] | string> => {
  const rows: RouteRow[] = []
  for (let page = 1; ; page++) {
    const answer = await admin<ListOf<RouteRow>>(`routes?page=${page}&pageSize=${ASKED}`)
    if (answer.status !== 200) return problemOf(answer)
    rows.push(...answer.body.items)
    if (answer.body.items.length === 0 || rows.length >= answer.body.total) return rows
  }
}

/** A path that the route takes. */
const sampleOf = (path: string): string => path.replace(/:[^/]+/g, '1').replace(/\*$/, 'x')

const Cell = ({ row, role, onAsk }: { row: RouteRow; role: string; onAsk: (question: Question) => void }): VNode => {
  const passes = row.allowed[role] === true
  const ask = () => onAsk({ method: row.methods[0] ?? 'GET', path: sampleOf(row.path), as: role })
  const label = text('cell', { route: row.id, role, answer: text(passes ? 'yes' : 'no') })
  return html`<td class="cell"><button type="button" data-passes=${passes} aria-label=${label} title=${label} onClick=${ask}>
    <span aria-hidden="true">${passes ? '✓' : '×'}</span></button></td>`
}

const Row = ({ row, onAsk }: { row: RouteRow; onAsk: (question: Question) => void }): VNode => html`<tr>
  <th scope="row"><code>${row.path}${row.id.slice(row.id.indexOf(row.path) + row.path.length)}</code>
    <small class="quiet">${row.methods.length === 0 ? text('allMethods') : row.methods.join(' ')} · ${row.upstream || text('own')}${row.kind === 'http' ? '' : ` · ${row.kind}`}</small></th>
  ${ROLES.map(role => html`<${Cell} key=${role} row=${row} role=${role} onAsk=${onAsk} />`)}</tr>`

export const MatrixView = (): VNode => {
  const [rows, setRows] = useState<readonly RouteRow[] | string | undefined>()
  const [filter, setFilter] = useState('')
  const [page, setPage] = useState(1)
  const [question, setQuestion] = useState<Question | undefined>()
  useEffect(() => void loadAll().then(setRows), [])

  const letters = filter.trim().toLowerCase()
  const found = Array.isArray(rows)
    ? (rows as RouteRow[]).filter(row => `${row.id} ${row.upstream}`.toLowerCase().includes(letters))
    : []
  const shown = found.slice((page - 1) * SHOWN, page * SHOWN)
  return html`<h1>${text('access')}</h1>
    <p class="quiet">${text('legend')}</p>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <p class="grow"><label for="route-filter">${text('filterRoutes')}</label>
      <input id="route-filter" type="search" value=${filter} maxlength="256" autocomplete="off" onInput=${(
        event: InputEvent
      ) => {
        setPage(1)
        setFilter((event.target as HTMLInputElement).value)
      }} /></p></form>
    ${rows === undefined && html`<p class="quiet" role="status">${text('loading')}</p>`}
    ${typeof rows === 'string' && html`<div class="notice" data-error="true" role="alert">${rows}</div>`}
    ${
      Array.isArray(rows) &&
      html`<${Table} kind="matrix" label=${text('access')} heads=${[text('route'), ...ROLES]}>
        ${shown.map(row => html`<${Row} key=${row.id} row=${row} onAsk=${setQuestion} />`)}<//>
      <${Pager} page=${page} pageSize=${SHOWN} total=${found.length} onPage=${setPage} />`
    }
    ${question !== undefined && html`<${ExplainPanel} first=${question} onClose=${() => setQuestion(undefined)} />`}`
}
