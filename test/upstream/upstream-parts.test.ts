// What decides about backends does on its own: addresses made public, hosts, hints, faults, turns and limits.

import t from 'tap'
import { createRequestHost } from '../../gateway/http/request-host.ts'
import { callUpstream } from '../../gateway/socketio/polling/call-upstream.ts'
import { probeOf } from '../../gateway/upstream/checks.ts'
import { UpstreamConnection } from '../../gateway/upstream/connection.ts'
import { isHttp2Frame, upstreamRefusal } from '../../gateway/upstream/faults.ts'
import { requestRulesOf } from '../../gateway/upstream/headers/header-rules.ts'
import { privateCacheControl } from '../../gateway/upstream/headers/private-answers.ts'
import { publicAddress, publicCookie, publicRefresh } from '../../gateway/upstream/headers/public-addresses.ts'
import { keepAliveHint } from '../../gateway/upstream/headers/response-head.ts'
import { watchTarget } from '../../gateway/upstream/health.ts'
import { createSharedLookup } from '../../gateway/upstream/lookup.ts'
import { ResponseParser } from '../../gateway/upstream/parser.ts'
import { mustBeRead } from '../../gateway/upstream/pool.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { parseHead } from '../support/response-heads.ts'
import { HEALTH_CHECK, inUse, person, targetAt, upstreamAt } from '../support/routes.ts'
import { onThrown } from '../support/thrown.ts'

const context = { upstream: upstreamAt(4001), strippedPrefix: '/app', host: '127.0.0.1:4001' }
const bare = { ...context, strippedPrefix: '' }

t.test('a backend’s own addresses become public ones, in any spelling; others stay as they are', async t => {
  for (const [address, expected] of [
    ['http://127.0.0.1:4001/x', '/app/x'],
    ['http://[::1]:4001/x', '/app/x'],
    ['http://[0:0:0:0:0:0:0:1]:4001/x', '/app/x'],
    ['http://LOCALHOST.:4001/x', '/app/x'],
    ['http://user@127.0.0.1:4001/', 'http://user@127.0.0.1:4001/'],
    ['http://127.0.0.1:4001:4001/', 'http://127.0.0.1:4001:4001/'],
    ['http://elsewhere.example/x', 'http://elsewhere.example/x'],
    ['/x', '/app/x'],
    ['/app', '/app'],
    ['/apple', '/app/apple'],
    ['x', 'x']
  ] as const) {
    t.equal(publicAddress(address, context), expected)
    t.equal(publicRefresh(`5; url=${address}`, context), `5; url=${expected}`)
    t.equal(publicRefresh(`5; url='${address}' x`, context), `5; url='${expected}' x`)
  }
  const [target = targetAt(4001)] = bare.upstream.targets
  const far = { ...target, host: '2001:db8::1', authority: '[2001:db8::1]:4001' }
  const spelled = { ...context, upstream: { ...bare.upstream, targets: [far] } }
  t.equal(publicAddress('http://[2001:DB8:0:0::1]:4001/x', spelled), '/app/x')
  const preserving = { ...bare, upstream: { ...bare.upstream, preserveHost: true }, host: 'App.example' }
  t.equal(publicAddress('https://app.example/x', preserving), '/x')
  t.equal(publicAddress('https://other.example/x', preserving), 'https://other.example/x')
  t.equal(publicCookie('a=b; Path=/; Secure; Domain=127.0.0.1', { ...bare, host: 'gw' }), 'a=b; Path=/; Secure')
  t.equal(publicCookie('a=b; Path=/; Secure; path=/x', context), 'a=b; Path=/app; Secure; path=/app/x')
  t.equal(publicCookie('a=b; Path=/; Domain=127.0.0.1', bare), 'a=b; Path=/; Domain=127.0.0.1')
})

t.test('a backend is told the host that was asked for, if it may be', async t => {
  const told = (host: string | undefined, allowedHosts: string[] = []) =>
    createRequestHost({ publicUrl: 'https://gw.example', allowedHosts })(host, { hosts: [], namesHost: () => false })
  t.equal(told('other:8080'), 'gw.example')
  t.equal(told('OTHER:8080', ['other:8080']), 'OTHER:8080')
  for (const host of ['other:8080', '[2001:db8::1]:443', 'gw.example']) t.equal(told(host, ['*']), host)
  for (const host of [undefined, 'a, b', 'a:123456']) t.equal(told(host, ['*']), 'gw.example')
})

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

t.test('no shared cache keeps a private response, whatever case its directives have', async t => {
  const own = { shared: false, vary: [] }
  t.equal(privateCacheControl('No-Store', own), 'No-Store')
  t.equal(privateCacheControl('s-maxage=5, max-age=1', own), 'private, max-age=1')
  t.equal(privateCacheControl('PUBLIC , Private="a", max-age=1', own), 'private, max-age=1')
})

t.test('what is wrong with a backend has a reason; a frame of HTTP/2 is known by its type', async t => {
  t.match(upstreamRefusal('unreachable', undefined), {
    code: 'GW_UPSTREAM_UNREACHABLE',
    reason: 'upstream-unreachable'
  })
  for (const [type, expected] of [
    [4, true],
    [7, true],
    [0, false]
  ] as const)
    t.equal(isHttp2Frame(Buffer.from([0, 0, 0, type, 0, 0, 0, 0, 0])), expected)
})

t.test('a target that returns takes more and more turns, and all of them after ten seconds', async t => {
  let clock = 0
  const health = watchTarget({
    probe: () => () => undefined,
    settings: () => ({ checks: undefined, outlier: { errors: 5, restMs: 1 } }),
    hasOther: () => true,
    now: () => clock,
    onChange: () => undefined
  })
  t.teardown(health.close)
  health.failed('unreachable', true)
  t.equal(health.status().state, 'down')
  health.answered(200, 1)
  clock = 2500
  t.same(
    Array.from({ length: 8 }, () => health.takesTurn()).flatMap((takes, n) => (takes ? [n] : [])),
    [3, 7]
  )
  clock = 9999
  t.equal(health.status().state, 'returning')
  clock = 10_000
  t.equal(health.status().state, 'up')
})

t.test('a header that an upstream sets has the person’s values, and those without one are left out', async t => {
  const rules = requestRulesOf({
    ...upstreamAt(1),
    identityHeaders: [
      { name: 'X-Login', attribute: 'login' },
      { name: 'X-Mail', attribute: 'email' }
    ]
  })
  const lines = (username: string, email: string) =>
    rules?.identityLines({ user: person({ username, email }) } as never)
  t.match(lines('maria', ''), /^X-Login: \w+:maria\r\n$/)
  t.equal(lines('', ''), '')
})

t.test('a name is looked up in the family that is wanted', async t => {
  const resolve = (_: string, done: (error: null, addresses: { address: string; family: number }[]) => void) =>
    done(null, [
      { address: '2001:db8::1', family: 6 },
      { address: '192.0.2.1', family: 4 }
    ])
  const found = (family: number | undefined) =>
    new Promise(settle =>
      createSharedLookup({ resolve })('a.example', family === undefined ? {} : { family }, (_, address) =>
        settle(address)
      )
    )
  t.same(await Promise.all([4, 6, undefined].map(found)), ['192.0.2.1', '2001:db8::1', '2001:db8::1'])
})

t.test('the target with the fewest requests in progress is next, whichever is next in turn', async t => {
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const raw = await startRawUpstream(t)
  const other = await startRawUpstream(t)
  const upstream = upstreamAt(raw.port, other.port)
  upstreams.retain(inUse(upstream))
  const pool = upstreams.poolOf(upstream)
  for (let i = 0; i < 3; i++) pool.acquire({}, targetAt(other.port))
  const busy = () => upstreams.status()[0]?.targets.map(target => target.busy)
  t.same(busy(), [0, 3])
  for (const next of [1, 2, 3]) {
    pool.acquire()
    t.same(busy(), [next, 3])
  }
})

t.test('a check, a chunk and an answer are what they say, and no longer than allowed', async t => {
  const raw = await startRawUpstream(t)
  const upstream = upstreamAt(raw.port)
  const check = (status: string) => {
    raw.respond(() => `HTTP/1.1 ${status}\r\nContent-Length: 5\r\n\r\n12345`)
    const context = { now: () => 0, publicHost: 'gw.example' }
    return new Promise(done => probeOf({ ...upstream, healthCheck: HEALTH_CHECK }, targetAt(raw.port), context)(done))
  }
  t.equal(await check('503 Unavailable'), 'check-status')
  t.equal(await check('399 Whatever'), undefined)
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const head = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'
  const call = { upstream, target: targetAt(raw.port), method: 'GET' as const, head, body: undefined, timeoutMs: 1000 }
  t.equal(String((await callUpstream(upstreams, { ...call, maxBytes: 5 }).answer).body), '12345')
  await t.rejects(callUpstream(upstreams, { ...call, maxBytes: 4 }).answer, {
    code: 'GW_BAD_UPSTREAM_RESPONSE',
    reason: 'upstream-answer-too-large'
  })
  const connection = new UpstreamConnection(upstream, targetAt(raw.port), {
    now: () => performance.now(),
    onFree: () => undefined,
    onClosed: () => undefined
  })
  t.teardown(() => connection.destroy())
  await new Promise<void>((resolve, reject) => {
    const requester = {
      onInterim: () => undefined,
      onThrown,
      onHead: () => undefined,
      onBody: () => undefined,
      onEnd: () => resolve(),
      onFault: (_: unknown, cause: unknown) => reject(cause),
      onDrain: () => undefined
    }
    connection.send('PUT', 'PUT /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n', requester, 1000)
    connection.writeChunk(Buffer.from('0123456789abcdef'))
    connection.write(Buffer.from('0\r\n\r\n'))
    connection.finish()
  })
  t.match(raw.requests.at(-1), { method: 'PUT', body: /^10\r\n0123456789abcdef\r\n0\r\n\r\n$/ })
})

t.test('a chunked response is the same however its bytes are split', async t => {
  const text =
    'HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 ;a="b"\r\nab\r\n1\r\nc\r\n0\r\n'
  const read = (pieces: string[]) => {
    const told: string[] = []
    const parser = new ResponseParser()
    parser.begin('GET', {
      onInterim: status => void told.push(`interim ${status}`),
      onHead: ({ status }) => void told.push(`head ${status}`),
      onBody: chunk => void told.push(...chunk.toString()),
      onEnd: trailers => void told.push(`end ${trailers}`)
    })
    for (const piece of pieces) parser.take(Buffer.from(piece))
    return told
  }
  for (const [end, trailers] of [
    ['\r\n', ''],
    ['T: 1\r\n\r\n', 'T,1']
  ]) {
    const expected = ['interim 100', 'head 200', 'a', 'b', 'c', `end ${trailers}`]
    t.same(read([text + end]), expected)
    t.same(read([...(text + end)]), expected)
  }
  t.throws(() => read(['xHTTP/1.1']), { message: 'malformed status line' })
})
