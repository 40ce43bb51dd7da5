// Shows Admins who is connected to what and since when, and ends a connection.
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import { type Act, Confirm, Name, type Outcome, OutcomeLine, Pager, Table, Waiting } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import { text } from './words-places.ts'

interface Stream {
  readonly id: string
  readonly kind: string
  readonly route: string
  readonly namespace?: string
  readonly since: string | number
  readonly ip?: string
  readonly user?: { readonly id: number; readonly name?: string; readonly username: string } | null
}

const EVERY_MS = 5000

const whoOf = ({ user }: Stream): string =>
  user === undefined || user === null ? text('anonymous') : user.name || user.username

export const StreamsView = (): VNode => {
  const [page, setPage] = useState(1)
  const loaded = useLoad<ListOf<Stream>>(`sockets?page=${page}&pageSize=50`, EVERY_MS)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [act, setAct] = useState<Act | undefined>()

  const end = async (stream: Stream) => {
    const answer = await admin(`sockets/${encodeURIComponent(stream.id)}`, { method: 'DELETE' })
    const isError = answer.status !== 204
    setOutcome({ words: isError ? problemOf(answer) : text('endedDone'), isError })
    loaded.reload()
  }
  const askEnd = (stream: Stream) =>
    setAct({
      title: text('endAsk'),
      consequence: text('endWill', { name: whoOf(stream).slice(0, 80), path: stream.route }),
      label: text('end'),
      run: () => void end(stream)
    })
  const row = (stream: Stream) => html`<tr key=${stream.id}>
    <th scope="row" data-label=${text('who')}>${
      stream.user ? html`<a href=${`#/people/${stream.user.id}`}><${Name} of=${whoOf(stream)} /></a>` : whoOf(stream)
    }</th>
    <td data-label=${text('what')}><code>${stream.route}</code> <small class="quiet">${stream.kind}${stream.namespace ? ` ${stream.namespace}` : ''}</small></td>
    <td data-label=${text('since')}>${dateTime(stream.since)}</td>
    <td data-label=${text('address')}>${stream.ip ?? '–'}</td>
    <td data-label=${text('actions')}><button type="button" aria-label=${text('endStream', { name: whoOf(stream), path: stream.route })} onClick=${() => askEnd(stream)}>${text('end')}</button></td></tr>`

  return html`<h1>${text('streams')}</h1>
    <${OutcomeLine} outcome=${outcome} />
    <${Waiting} loaded=${loaded} />
    ${
      loaded.data !== undefined &&
      html`${loaded.data.items.length > 0 && html`<${Table} label=${text('streams')} heads=${[text('who'), text('what'), text('since'), text('address'), text('actions')]}>${loaded.data.items.map(row)}<//>`}
      <${Pager} ...${loaded.data} onPage=${setPage} />`
    }
    ${act !== undefined && html`<${Confirm} act=${act} onClose=${() => setAct(undefined)} />`}`
}
