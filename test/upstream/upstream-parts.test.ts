// How long a connection to a backend is kept, and when a request is tried again.
import t from 'tap'
import type { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import { EXHAUSTED, mayTryAgain } from '../../gateway/upstream/faults.ts'
import { keepAliveHint } from '../../gateway/upstream/parser.ts'
import { mustBeRead } from '../../gateway/upstream/pool.ts'
import { parseHead } from '../support/response-heads.ts'

t.test('a connection is kept for as long as the backend announces, less half a second', async t => {
  const hint = (fields: string) => keepAliveHint(parseHead(`HTTP/1.1 200 OK\r\n${fields}`, 'GET'))
  t.equal(hint('A: b\r\nKeep-Alive: max=9, timeout=5\r\n'), 4500)
  t.equal(hint('Keep-Alive: timeout=0\r\n'), 0)
  t.equal(hint('Keep-Alive: max=9\r\n'), 4000)
  t.equal(mustBeRead({ idleSince: 0 } as UpstreamConnection, true), false, 'it was not used before')
  t.equal(mustBeRead({ idleSince: performance.now() } as UpstreamConnection, false), false)
  t.equal(mustBeRead({ idleSince: performance.now() } as UpstreamConnection, true), true)
  t.equal(mustBeRead({ idleSince: performance.now() - 1001 } as UpstreamConnection, false), performance.now() > 1001)
  const keeps = (version: string, connection: string) =>
    parseHead(`HTTP/1.${version} 200 OK\r\nContent-Length: 0\r\nConnection: ${connection}\r\n`, 'GET').keepAlive
  t.same(
    [keeps('0', 'a, keep-alive'), keeps('0', 'a'), keeps('1', 'a, close'), keeps('1', 'a')],
    [true, false, false, true]
  )
})

t.test('a request is tried again while a target is left that could be reached', async t => {
  const rows: readonly (readonly [what: string, yes: boolean, ...asked: Parameters<typeof mayTryAgain>])[] = [
    ['a closed warm connection of the only target', true, 'reset', 1, 0, 1],
    ['a second one', false, 'reset', 2, 0, 1],
    ['the only target refuses', false, 'unreachable', 1, 1, 1],
    ['one of two refuses', true, 'unreachable', 1, 1, 2],
    ['both refuse', false, 'unreachable', 2, 2, 2],
    ['a closed warm connection of one, and the other refuses', true, 'unreachable', 2, 1, 2],
    ['one refuses, and a warm connection of the other was closed', true, 'reset', 2, 1, 2],
    ['no descriptor is left', false, EXHAUSTED, 1, 0, 2]
  ]
  for (const [what, yes, ...asked] of rows) t.equal(mayTryAgain(...asked), yes, what)
})
