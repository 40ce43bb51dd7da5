// An upgrade loses no byte that came with a handshake, goes to each target in its turn, and is reported when it is done.
import t from 'tap'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { dialWebSocket } from '../../gateway/websocket/dial.ts'
import { passBytes, switchClient } from '../../gateway/websocket/upgrade.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { parseHead } from '../support/response-heads.ts'
import { routeAt, targetAt, upstreamAt, WEBSOCKET } from '../support/routes.ts'

t.test('what came behind either handshake is passed on first', async t => {
  const taken: string[] = []
  const relay = { take: (side: string, bytes: Buffer) => taken.push(`${side} ${bytes}`) }
  const readers: ((bytes: Buffer) => void)[] = []
  const side = (rest: string) => ({ rest: Buffer.from(rest), read: (by: (bytes: Buffer) => void) => readers.push(by) })
  passBytes(relay as never, side('one') as never, side('two') as never)
  for (const read of readers) read(Buffer.from('more'))
  t.same(taken, ['client one', 'upstream two', 'upstream more', 'client more'])
  taken.length = 0
  passBytes(relay as never, side('') as never, side('') as never)
  t.same(taken, [])
})

t.test('each target is first in its turn', async t => {
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const [upstream, single] = [upstreamAt(1, 2, 3), upstreamAt(1)]
  const ports = () =>
    upstreams
      .poolOf(upstream)
      .inTurn()
      .map(({ port }) => port)
  t.same(
    [ports(), ports(), ports(), ports()],
    [
      [1, 2, 3],
      [2, 3, 1],
      [3, 1, 2],
      [1, 2, 3]
    ]
  )
  t.same(upstreams.poolOf(single).inTurn(), single.targets)
})

t.test('a connection that is reset after the request was sent counts as reset, not as unreachable', async t => {
  const raw = await startRawUpstream(t)
  raw.respond(() => socket => void socket.resetAndDestroy())
  const dialled = { target: targetAt(raw.port), headStart: 'GET / HTTP/1.1\r\nhost: x\r\n', subprotocols: [] }
  const fault = await new Promise((resolve, reject) =>
    dialWebSocket(
      { ...dialled, upstream: upstreamAt(raw.port), timeoutMs: 2000 },
      { onOpen: reject, onRefused: reject, onThrown: reject, onFault: (...told) => resolve(told) }
    )
  )
  t.match(fault, ['reset', { code: 'ECONNRESET' }, false])
})

t.test('a switched client has received its 101 when the switch is reported', async t => {
  const told: unknown[] = []
  const upstream = upstreamAt(1)
  const route = routeAt('/x', upstream, { websocket: WEBSOCKET })
  const exchange = exchangeOf({ fields: ['Host', 'gw', 'Sec-WebSocket-Key', 'AAAAAAAAAAAAAAAAAAAAAA=='] })
  const client = { socket: { write: (text: string) => told.push(text.slice(0, 12)) } }
  Object.assign(exchange.request.connection, { takeOver: () => client })
  const forwarding = {
    responseContext: createResponseContext({ has: () => false }),
    onSwitched: (switched: unknown) => told.push(switched === exchange)
  }
  const offer = { subprotocols: [], bearerOffered: false }
  const open = { head: parseHead('HTTP/1.1 101 S\r\n', 'GET'), protocol: undefined }
  const request = { exchange, route, upstream, targets: upstream.targets, offer }
  t.equal(switchClient(forwarding as never, request, open as never), client)
  t.same(told, ['HTTP/1.1 101', true])
})
