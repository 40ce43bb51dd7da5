// A request whose first connection took nothing of it goes to another one, head first, whenever its body comes.
import t from 'tap'
import { createForwardHttp, type HttpForwarding } from '../../gateway/forward/forward-http.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import type { BodyConsumer } from '../../gateway/http/server/request.ts'
import type { Route } from '../../gateway/routes/route.ts'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import type { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import type { Requester } from '../../gateway/upstream/requester.ts'
import { until } from '../support/until.ts'

/** Of the process's own clock. */
const DOUBTFUL_AFTER_MS = 1001

/** Tells what it is asked to do. By hand: which turn of the event loop a fault comes in is all that this is about. */
const tellingConnection = (
  name: string,
  told: string[],
  onSend: (requester: Requester) => void
): UpstreamConnection => {
  const tell = (what: string) => void told.push(`${name} ${what}`)
  return {
    send(_method: string, _head: string, requester: Requester) {
      tell('head')
      onSend(requester)
    },
    write(bytes: Buffer | string) {
      tell(`body ${bytes}`)
      return true
    },
    finish: () => tell('end'),
    destroyed: false,
    // Since the process began: so long that its end might be on the way.
    idleSince: Number.MIN_VALUE,
    target: { authority: 'upstream' }
  } as unknown as UpstreamConnection
}

t.test('a body that comes right after the first connection failed follows the head on the second', async t => {
  await until(() => performance.now() >= DOUBTFUL_AFTER_MS)
  const told: string[] = []
  let consumer: BodyConsumer | undefined
  const request = {
    method: 'POST',
    read(reader: BodyConsumer) {
      consumer = reader
    }
  }
  const finished = new Promise<void>(resolve => {
    const second = tellingConnection('second', told, () => setImmediate(resolve))
    const first = tellingConnection('first', told, requester => {
      setImmediate(() => {
        requester.onFault('reset', new Error('EPIPE'), true)
        consumer?.onUpload(Buffer.from('hello'))
        consumer?.onUploadEnd()
      })
    })
    const connections = [first, second]
    const pool = { acquire: () => connections.shift(), targetCount: () => 1 }
    const forwarding = {
      upstreams: { poolOf: () => pool },
      headFor: () => 'POST / HTTP/1.1\r\n\r\n'
    } as unknown as HttpForwarding
    const exchange = { request, response: {}, head: { contentLength: '5' } } as unknown as Exchange
    createForwardHttp(forwarding)(exchange, {} as Route, { timeoutMs: 1000 } as Upstream)
  })
  await finished
  t.strictSame(told, ['first head', 'second head', 'second body hello', 'second end'])
})
