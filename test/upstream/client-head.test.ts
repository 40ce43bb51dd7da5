// The response fields that a client receives, out of those that the backend sent.
import t from 'tap'
import { ownCookies } from '../../gateway/access/own-cookies.ts'
import type { User } from '../../gateway/identity.ts'
import { clientHead, clientTrailers, createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { identityFields } from '../../gateway/upstream/headers/identity-headers.ts'
import { privateAnswersOf } from '../../gateway/upstream/headers/private-answers.ts'
import { parseHead } from '../support/response-heads.ts'
import { person, routeAt, upstreamAt } from '../support/routes.ts'

const upstream = upstreamAt(4001)
const context = createResponseContext(ownCookies)(routeAt('/x', upstream), upstream, '127.0.0.1:4001')
const PUBLIC = undefined
const PRIVATE = privateAnswersOf(routeAt('/x', upstream))

const headOf = (fields: readonly string[], privacy: typeof PRIVATE, status = 200) => {
  const lines = fields.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${fields[index + 1]}\r\n`] : []))
  return clientHead(parseHead(`HTTP/1.1 ${status} OK\r\n${lines.join('')}`, 'GET'), context, privacy)
}

t.test('the gateway adds a Date unless one passes (RFC 9110 §6.6.1)', async t => {
  t.equal(headOf(['DATE', 'x'], PRIVATE).hasDate, true)
  t.equal(headOf(['Connection', 'date', 'Date', 'x'], PRIVATE).hasDate, false)
  t.equal(headOf(['X-Date', 'x'], PRIVATE).hasDate, false)
})

t.test('a stream of events is one by its type alone', async t => {
  const isStream = (type: string) => headOf(['Content-Type', type], PUBLIC).eventStream
  for (const type of ['text/event-stream', 'Text/Event-Stream ; charset=utf-8']) t.equal(isStream(type), true, type)
  const beside = ['Content-Type', 'text/event-stream', 'Set-Cookie', 'a=b', 'Location', '/x', 'Date', 'x']
  t.equal(headOf(beside, PUBLIC).eventStream, true)
  t.equal(headOf(['Location', 'text/event-stream'], PUBLIC).eventStream, false)
  for (const type of ['text/event-streams', 'x/text/event-stream', 'text/plain']) t.equal(isStream(type), false, type)
})

t.test('a trailer passes unless it would change how the response is read', async t => {
  const trailers = ['X-Sum', '1', 'Content-Type', 'x', 'set-cookie', 'a=b', 'X-User-Id', '1', 'Grpc-Status', '0']
  t.same(clientTrailers(trailers, undefined), ['X-Sum', '1', 'Grpc-Status', '0'])
  t.same(
    clientTrailers(trailers, name => name === 'X-Sum'),
    ['Grpc-Status', '0']
  )
})

t.test('blanks at the ends of an attribute survive; without a person every identity field is empty', async t => {
  const valuesOf = (user: User | undefined) => identityFields(user).filter((_, index) => index % 2 === 1)
  const values = valuesOf(person({ name: '  a b  ', areas: ['  a', 'b  '] }))
  t.ok(values.includes('%20%20a b%20%20'))
  t.ok(values.includes('%20%20a,b%20%20'))
  t.same([...new Set(valuesOf(undefined))], [''])
})
