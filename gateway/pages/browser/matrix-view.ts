// Draws the access matrix as a grid in which each cell explains its decision.
import { pageOf, useAddressed } from './address.ts'
import { admin, type ListOf, problemOf } from './console-data.ts'
import { Pager, Table } from './console-parts.ts'
import { ExplainPanel, type Question } from './explain-panel.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import { roleWords, text } from './words-routes.ts'

interface RouteRow {
  readonly id: string
  readonly path: string
  readonly methods: readonly string[]
  readonly upstream: string
  readonly public: boolean
  readonly kind: string
  /** Hosts on which it applies; empty: all that no route names. */
  readonly host: readonly string[]
  /** Networks from which clients may come; empty: any. */
  readonly from: readonly string[]
  /** '' if the route is not listed on /auth/apps. */
  readonly app: string
  readonly place: string
  readonly allowed: Readonly<Record<string, boolean>>
}

const SHOWN = 50
const ASKED = 200

/** The gateway's own endpoints are below these paths on the public origin. */
const isOwn = ({ path }: RouteRow): boolean => /^\/(?:auth|health)(?:\/|$)/.test(path)

/** All routes, the site's by their hosts before the gateway's own. */
const loadAll = async (): Promise<readonly RouteRow[] | string> => {
  const rows: RouteRow[] = []
  for (let page = 1; ; page++) {
    const answer = await admin<ListOf<RouteRow>>(`routes?page=${page}&pageSize=${ASKED}`)
    if (answer.status !== 200) return problemOf(answer)
    rows.push(...answer.body.items)
    if (answer.body.items.length === 0 || rows.length >= answer.body.total) break
  }
  const hostsOf = ({ host }: RouteRow): string => host.join(', ')
  const sorted = rows.toSorted((a, b) => (hostsOf(a) < hostsOf(b) ? -1 : hostsOf(a) > hostsOf(b) ? 1 : 0))
  return [...sorted.filter(row => !isOwn(row)), ...sorted.filter(isOwn)]
}

/** A path that the route matches, as an address if it names hosts. */
const sampleOf = ({ host: [host], path }: RouteRow): string => {
  const sample = path.replace(/:[^/]+/g, '1').replace(/\*$/, 'x')
  return host === undefined ? sample : `https://${host.replace(/^\*/, 'x')}${sample}`
}

/** An address in one of the route's networks. */
const sampleAddressOf = ({ from: [first = ''] }: RouteRow): string => first.split('/', 1)[0] ?? ''

const Cell = ({ row, role, onAsk }: { row: RouteRow; role: string; onAsk: (question: Question) => void }): VNode => {
  const passes = row.allowed[role] === true
  const ask = () =>
    onAsk({ method: row.methods[0] ?? 'GET', path: sampleOf(row), as: role, from: sampleAddressOf(row) })
  const label = text('cell', { route: row.id, role: roleWords(role), answer: text(passes ? 'yes' : 'no') })
  return html`<td class="cell"><button type="button" data-passes=${passes} aria-label=${label} title=${label} onClick=${ask}>
    <span aria-hidden="true">${passes ? '✓' : '×'}</span></button></td>`
}

interface RowsProps {
  readonly rows: readonly RouteRow[]
  readonly roles: readonly string[]
  readonly onAsk: (question: Question) => void
}

const Row = ({ row, roles, onAsk }: Omit<RowsProps, 'rows'> & { row: RouteRow }): VNode => html`<tr>
  <th scope="row"><code>${row.path}${row.id.slice(row.id.indexOf(row.path) + row.path.length)}</code>
    <small class="quiet">${row.methods.length === 0 ? text('allMethods') : row.methods.join(' ')} · ${row.upstream || text(isOwn(row) ? 'own' : 'external')}${row.kind === 'http' ? '' : ` · ${row.kind}`}${row.from.length === 0 ? '' : ` · ${text('networks', { networks: row.from.join(', ') })}`}${row.app === '' ? '' : ` · ${text('app', { name: row.app })}`}</small></th>
  ${roles.map(role => html`<${Cell} key=${role} row=${row} role=${role} onAsk=${onAsk} />`)}</tr>`

const Group = ({ rows, roles, onAsk, label }: RowsProps & { label: string }): VNode =>
  html`<tr class="group"><th colspan=${roles.length + 1} scope="rowgroup">${label}</th></tr>
      ${rows.map(row => html`<${Row} key=${row.id} row=${row} roles=${roles} onAsk=${onAsk} />`)}`

export const MatrixView = (): VNode => {
  const [rows, setRows] = useState<readonly RouteRow[] | string | undefined>()
  const [{ filter, page }, change] = useAddressed({ filter: '', page: '1' })
  const [question, setQuestion] = useState<Question | undefined>()
  useEffect(() => void loadAll().then(setRows), [])

  const all: readonly RouteRow[] = Array.isArray(rows) ? rows : []
  const roles = Object.keys(all[0]?.allowed ?? {})
  const words = filter.toLowerCase().split(/\s+/)
  const found = all.filter(row => words.every(word => `${row.id} ${row.upstream}`.toLowerCase().includes(word)))
  const shown = found.slice((pageOf(page) - 1) * SHOWN, pageOf(page) * SHOWN)
  const labelOf = (row: RouteRow) =>
    isOwn(row) ? text('ownRoutes') : row.host.length === 0 ? text('siteRoutes') : row.host.join(', ')
  const groups = [...new Set(shown.map(labelOf))]
  return html`<h1>${text('access')}</h1>
    <p class="quiet">${text('legend')} <span class="narrow">${text('sideways')}</span></p>
    <form class="filters" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <p class="grow"><label for="route-filter">${text('filterRoutes')}</label>
      <input id="route-filter" type="search" value=${filter} maxlength="256" autocomplete="off" onInput=${(
        event: InputEvent
      ) => change({ filter: (event.target as HTMLInputElement).value, page: '1' })} /></p></form>
    ${rows === undefined && html`<p class="quiet" role="status">${text('loading')}</p>`}
    ${typeof rows === 'string' && html`<div class="notice" data-error="true" role="alert">${rows}</div>`}
    ${
      Array.isArray(rows) &&
      html`<${Table} kind="matrix" label=${text('access')} heads=${[text('route'), ...roles.map(roleWords)]}>
        ${groups.map(
          label =>
            html`<${Group} key=${label} rows=${shown.filter(row => labelOf(row) === label)} roles=${roles} onAsk=${setQuestion} label=${label} />`
        )}<//>
      <${Pager} page=${pageOf(page)} pageSize=${SHOWN} total=${found.length} onPage=${(to: number) => change({ page: String(to) })} />`
    }
    ${question !== undefined && html`<${ExplainPanel} first=${question} roles=${roles} onClose=${() => setQuestion(undefined)} />`}`
}
