// Shows Admins who is connected to what and since when, and ends a connection.
import { admin, useList } from './console-data.ts'
import { Listing, Missing, Name, useActs } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, type VNode } from './render.ts'
import { text } from './words-places.ts'

interface Stream {
  readonly id: string
  readonly kind: string
  readonly route: string
  readonly namespace?: string
  readonly since: string | number
  readonly ip?: string
  readonly instance: string
  readonly user?: { readonly id: number; readonly name?: string; readonly username: string } | null
}

const EVERY_MS = 5000

const whoOf = ({ user }: Stream): string =>
  user === undefined || user === null ? text('anonymous') : user.name || user.username

export const StreamsView = (): VNode => {
  const list = useList<Stream, { readonly missing: readonly string[] }>('sockets', 50, EVERY_MS)
  const { ask, settle, notices } = useActs()

  const end = async (stream: Stream) => {
    settle(await admin(`sockets/${encodeURIComponent(stream.id)}`, { method: 'DELETE' }), text('endedDone'))
    list.reload()
  }
  const askEnd = (stream: Stream) =>
    ask({
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
    <td data-label=${text('instance')}>${stream.instance}</td>
    <td data-label=${text('actions')}><button type="button" aria-label=${text('endStream', { name: whoOf(stream), path: stream.route })} onClick=${() => askEnd(stream)}>${text('end')}</button></td></tr>`

  const heads = [text('who'), text('what'), text('since'), text('address'), text('instance'), text('actions')]
  return html`<h1>${text('streams')}</h1>${notices}<${Missing} from=${list.data?.missing} />
    <${Listing} of=${list} label=${text('streams')} heads=${heads} row=${row} />`
}
