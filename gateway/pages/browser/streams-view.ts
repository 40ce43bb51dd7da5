// Shows Admins who is connected to what and since when, and ends a connection.
import { useList } from './console-data.ts'
import { actions, actOf, type Column, Listing, Missing, Name, useActs } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, type VNode } from './render.ts'
import type { InstanceStream } from './shapes.ts'
import { text } from './words-console.ts'

const EVERY_MS = 5000

const whoOf = ({ user }: InstanceStream): string => user?.username ?? text('notIdentified')

const pageOf = ({ id, provider }: NonNullable<InstanceStream['user']>): string =>
  provider === 'client' ? '#/clients' : `#/people/${id}`

export const StreamsView = (): VNode => {
  const list = useList<InstanceStream, { readonly missing: readonly string[] }>('sockets', 50, EVERY_MS)
  const { ask, change, notices } = useActs(list.reload)

  const end = (stream: InstanceStream) => {
    const run = () => change(`sockets/${encodeURIComponent(stream.id)}`, 'DELETE', text('endedDone'))
    ask(actOf(text, 'end', { name: whoOf(stream).slice(0, 80), path: stream.route }, run))
  }
  const columns: Column<InstanceStream>[] = [
    [
      text('who'),
      stream => (stream.user ? html`<a href=${pageOf(stream.user)}><${Name} of=${whoOf(stream)} /></a>` : whoOf(stream))
    ],
    [
      text('what'),
      ({ route, kind, namespace }) =>
        html`<code>${route}</code> <small class="quiet">${kind}${namespace && ` ${namespace}`}</small>`
    ],
    [text('since'), ({ since }) => dateTime(since)],
    [text('address'), ({ ip }) => ip],
    [text('instance'), ({ instance }) => instance],
    actions(stream => [
      [text('end'), text('endStream', { name: whoOf(stream), path: stream.route }), () => end(stream)]
    ])
  ]
  return html`<h1>${text('streams')}</h1>${notices}<${Missing} from=${list.data?.missing} />
    <${Listing} of=${list} label=${text('streams')} columns=${columns} keyOf=${({ id }: InstanceStream) => id} />`
}
