// What waits for the client of a Socket.IO session reaches it in order, or the session ends; and it is bounded.
import t from 'tap'
import { BadRequest, RequestTimeout, Unavailable } from '../../gateway/errors.ts'
import { endingAfter } from '../../gateway/socketio/session.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { targetAt, upstreamAt } from '../support/routes.ts'
import { holdSessions } from '../support/socketio-sessions.ts'
import { until } from '../support/until.ts'

t.test('a stock client connects again, unless its access has ended or it broke a rule', async t => {
  // RW-75, RW-90
  const [again, never] = ['1', '41/a,']
  for (const [reason, told] of [
    ['session-owner', again],
    ['body-too-slow', again],
    ['client-gone', again],
    ['malformed-payload', never],
    ['upstream-malformed-packet', again],
    ['malformed-packet', never]
  ] as const) {
    const { enter, hold } = holdSessions(t)
    const { session, ask, answers } = hold()
    await enter(session, '/a')
    ask()
    if (reason.endsWith('packet')) session.violate(reason)
    else if (reason === 'session-owner') session.end(endingAfter(new Unavailable({ reason }), 1008))
    else if (reason === 'body-too-slow') session.end(endingAfter(new RequestTimeout({ reason }), 1008))
    else session.end(endingAfter(new BadRequest({ reason }), 1008))
    await until(() => answers.length > 0)
    t.same([answers, session.isOver], [[told], true], reason)
  }
})

t.test('a packet that cannot be read is the fault of the side that sent it', async t => {
  for (const [side, text, reason] of [
    ['upstream', 'x', 'upstream-malformed-packet'],
    ['client', 'x', 'malformed-packet'],
    ['client', '0{}', 'malformed-packet']
  ] as const) {
    const violations: string[] = []
    const session = { phase: 'websocket', violate: (broken: string) => violations.push(broken) }
    createWebSocketTransport({ session, relay: () => undefined } as never).onMessage(side, true, Buffer.from(text))
    t.same(violations, [reason], `${text} from the ${side}`)
  }
})

t.test('a client that never polls cannot have more than a megabyte of refusals kept for it', async t => {
  // RW-72
  const { enter, hold } = holdSessions(t)
  const { polling, session } = hold()
  await enter(session, '/b')
  const body = Buffer.from(Array.from({ length: 1000 }, () => '42/b,7["closed"]').join('\x1e'))
  let posts = 0
  const post = async () => {
    for (; posts < 100; posts++) t.equal((await polling.post('', body)).bytes.toString(), 'ok')
  }
  await t.rejects(post(), { code: 'GW_BAD_REQUEST', reason: 'answers-unread' })
  t.ok(posts >= 5 && posts < 10, `${posts}`)
})

t.test('what the upstream has answered to a poll is handed over with the session', async t => {
  // RW-79
  const raw = await startRawUpstream(t)
  raw.respond(() => undefined)
  const { enter, hold } = holdSessions(t)
  const { session, polling, ask, answers } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
  await enter(session, '/a')
  ask()
  const first = await raw.request()
  polling.carrier.toClient(['41/b,'])
  await until(() => answers.length === 1, 'the gateway itself answers the poll')
  const last = polling.last()
  // A stock server closes the transport of polls that the WebSocket replaces.
  first.socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n42/a,["old"]\x1e1`)
  await last
  t.same([answers, polling.takeAll()], [['41/b,'], ['42/a,["old"]']])
})

t.test('a client that does not read what its WebSocket answers is disconnected', t => {
  // RW-72
  const { source } = holdSessions(t)
  const violations: string[] = []
  const sent: string[] = []
  let unread = 3_000_000
  const relay = { send: (side: string) => sent.push(side), unreadBy: () => unread }
  const session = {
    source,
    phase: 'websocket',
    takeBytes: () => true,
    violate: (reason: string) => violations.push(reason),
    gate: { fromClient: () => ({ verdict: 'answer', text: '43/b,7[]' }) }
  }
  const { onMessage } = createWebSocketTransport({ session, relay: () => relay } as never)
  onMessage('client', true, Buffer.from('42/b,7["closed"]'))
  t.same([sent, violations], [['client'], []], 'as much as its upstream may have sent')
  unread++
  onMessage('client', true, Buffer.from('42/b,7["closed"]'))
  t.same(violations, ['answers-unread'])
  t.end()
})
