// Draws the access matrix as a grid in which each cell explains its decision.
import { pageOf, useAddressed } from './address.ts'
import { allOf, queryOf, useLoad } from './console-data.ts'
import { Dialog, Pager, State, Table, Waiting } from './console-parts.ts'
import { Choice, Field, Filters, sends } from './fields.ts'
import { html, useState, type VNode } from './render.ts'
import type { Answer } from './session.ts'
import type { Explanation, RouteItem } from './shapes.ts'
import { roleName, text } from './words-console.ts'

const SHOWN = 50

/** An endpoint of the gateway itself is in no file. */
const isOwn = ({ place }: RouteItem): boolean => place.startsWith('gateway:')

/** All routes, the site's by their hosts before the gateway's own. */
const loadAll = async (path: string): Promise<Answer<readonly RouteItem[]>> => {
  const answer = await allOf<RouteItem>(path)
  const hostsOf = ({ host }: RouteItem): string => host.join(', ')
  const sorted = answer.body.toSorted((a, b) => (hostsOf(a) < hostsOf(b) ? -1 : hostsOf(a) > hostsOf(b) ? 1 : 0))
  return { ...answer, body: [...sorted.filter(row => !isOwn(row)), ...sorted.filter(isOwn)] }
}

/** A path that the route matches, as an address if it names hosts. */
const sampleOf = ({ host: [host], path }: RouteItem): string => {
  const sample = path.replace(/\/:[^/]+/g, '/1').replace(/\*$/, 'x')
  return host === undefined ? sample : `https://${host.replace(/^\*/, 'x')}${sample}`
}

const sampleAddressOf = ({ from: [first = ''] }: RouteItem): string => first.split('/', 1)[0] ?? ''

const Cell = ({ row, role, onAsk }: { row: RouteItem; role: string; onAsk: (question: Question) => void }): VNode => {
  const passes = row.allowed[role] === true
  const ask = () =>
    onAsk({ method: row.methods[0] ?? 'GET', path: sampleOf(row), as: role, from: sampleAddressOf(row) })
  const label = text('cell', { route: row.id, role: roleName(role), answer: text(passes ? 'yes' : 'no') })
  // What a request to a Socket.IO route gets says nothing of its namespaces and events.
  if (row.kind === 'socketio')
    return html`<td class="cell"><span role="img" data-passes=${passes} aria-label=${label} title=${label}>${passes ? '✓' : '×'}</span></td>`
  return html`<td class="cell"><button type="button" data-passes=${passes} aria-label=${label} title=${label} onClick=${ask}>
    <span aria-hidden="true">${passes ? '✓' : '×'}</span></button></td>`
}

interface RowsProps {
  readonly rows: readonly RouteItem[]
  readonly roles: readonly string[]
  readonly onAsk: (question: Question) => void
}

const Row = ({ row, roles, onAsk }: Omit<RowsProps, 'rows'> & { row: RouteItem }): VNode => html`<tr>
  <th scope="row"><code>${row.path}${row.id.slice(row.id.indexOf(row.path) + row.path.length)}</code>
    <small class="quiet">${row.methods.length === 0 ? text('allMethods') : row.methods.join(' ')} · ${row.upstream || text(isOwn(row) ? 'own' : 'external')}${row.kind === 'http' ? '' : ` · ${row.kind}`}${row.from.length === 0 ? '' : ` · ${text('networks', { networks: row.from.join(', ') })}`}${row.app === '' ? '' : ` · ${text('app', { name: row.app })}`}</small></th>
  ${roles.map(role => html`<${Cell} key=${role} row=${row} role=${role} onAsk=${onAsk} />`)}</tr>`

const Group = ({ rows, roles, onAsk, label }: RowsProps & { label: string }): VNode =>
  html`<tr class="group"><th colspan=${roles.length + 1} scope="rowgroup">${label}</th></tr>
      ${rows.map(row => html`<${Row} key=${row.id} row=${row} roles=${roles} onAsk=${onAsk} />`)}`

export const MatrixView = (): VNode => {
  const loaded = useLoad('routes', 0, loadAll)
  const [{ filter, page }, change] = useAddressed({ filter: '', page: '1' })
  const [question, setQuestion] = useState<Question | undefined>()
  const all = loaded.data ?? []
  const roles = Object.keys(all[0]?.allowed ?? {})
  const words = filter.toLowerCase().split(/\s+/)
  const found = all.filter(row => words.every(word => `${row.id} ${row.upstream}`.toLowerCase().includes(word)))
  const shown = found.slice((pageOf(page) - 1) * SHOWN, pageOf(page) * SHOWN)
  const labelOf = (row: RouteItem) =>
    isOwn(row) ? text('ownRoutes') : row.host.length === 0 ? text('siteRoutes') : row.host.join(', ')
  const groups = [...new Set(shown.map(labelOf))]
  return html`<h1>${text('access')}</h1>
    <p class="quiet">${text('legend')} <span class="narrow">${text('sideways')}</span></p>
    <${Filters}><${Field} grows id="route-filter" label=${text('filterRoutes')} type="search" value=${filter} maxlength="256" onValue=${(filter: string) => change({ filter, page: '1' })} /><//>
    <${Waiting} loaded=${loaded} />
    ${
      loaded.data !== undefined &&
      html`<${Table} kind="matrix" label=${text('access')} heads=${[text('route'), ...roles.map(roleName)]}>
        ${groups.map(
          label =>
            html`<${Group} key=${label} rows=${shown.filter(row => labelOf(row) === label)} roles=${roles} onAsk=${setQuestion} label=${label} />`
        )}<//>
      <${Pager} label=${text('access')} page=${pageOf(page)} pageSize=${SHOWN} total=${found.length} onPage=${(to: number) => change({ page: String(to) })} />`
    }
    ${question !== undefined && html`<${ExplainPanel} first=${question} roles=${roles} onClose=${() => setQuestion(undefined)} />`}`
}

interface Question {
  readonly method: string
  readonly path: string
  readonly as: string
  /** The client's address; '': one in no network of any route. */
  readonly from: string
}

const whoOf = ({ as, from }: Question): string => (from.trim() === '' ? as : `${as} from ${from.trim()}`)

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

const Answered = ({ explanation }: { explanation: Explanation }): VNode => html`
  <p><${State} is=${explanation.decision === 'allow' ? 'ok' : 'bad'}>${
    explanation.decision === 'allow' ? text('yes') : text('refuse', { status: explanation.decision })
  }<//> ${explanation.code !== '' && html`<code>${explanation.code}</code>`}</p>
  <p lang="en">${explanation.words}</p>
  ${explanation.forwarded && html`<p class="quiet">→ ${explanation.upstream} <code>${explanation.forwarded}</code></p>`}
  ${
    explanation.candidates.length > 0 &&
    html`<h3>${text('candidates')}</h3><ol class="candidates">${explanation.candidates.slice(0, 20).map(
      candidate => html`<li key=${candidate.id}><code>${candidate.id}</code> ${candidate.chosen && html`<${State} is="ok">${text('chosen')}<//>`}
      <br /><span lang="en">${candidate.why}</span> <small class="quiet">${candidate.place}</small></li>`
    )}</ol>`
  }`

interface PanelProps {
  readonly first: Question
  /** The people that can be selected, by names that the gateway knows. */
  readonly roles: readonly string[]
  readonly onClose: () => void
}

/** Explains the decision on a request, and lets the reader try other paths and people. */
const ExplainPanel = ({ first, roles, onClose }: PanelProps): VNode => {
  const [asked, setAsked] = useState(first)
  const [sent, send] = useState(first)
  const found = useLoad<Explanation>(`explain?${queryOf({ method: sent.method, path: sent.path, as: whoOf(sent) })}`)
  /** The same question too: its answer may have changed. */
  const ask = () => {
    send(asked)
    found.reload()
  }
  const methods = METHODS.includes(asked.method) ? METHODS : [asked.method, ...METHODS]
  const take = (name: keyof Question) => (value: string) => setAsked({ ...asked, [name]: value })
  return html`<${Dialog} title=${text('explain')} onClose=${onClose}>
    <form class="filters" onSubmit=${sends(ask)}>
      <${Choice} id="explain-method" label=${text('method')} value=${asked.method} options=${methods.map(method => [method, method])} onValue=${take('method')} />
      <${Field} grows id="explain-path" label=${text('path')} required pattern="(https?:/)?/.*" maxlength="2048" value=${asked.path} spellcheck=${false} onValue=${take('path')} />
      <${Choice} id="explain-as" label=${text('as')} value=${asked.as} options=${roles.map(role => [role, roleName(role)])} onValue=${take('as')} />
      <${Field} id="explain-from" label=${text('clientAddress')} maxlength="45" size="16" value=${asked.from} spellcheck=${false} onValue=${take('from')} />
      <button type="submit" class="main">${text('ask')}</button>
    </form>
    <div id="explanation" aria-live="polite"><${Waiting} loaded=${found} />
      ${found.data !== undefined && found.problem === '' && html`<${Answered} explanation=${found.data} />`}</div>
    <div class="buttons"><button type="button" onClick=${onClose}>${text('close')}</button></div>
  <//>`
}
