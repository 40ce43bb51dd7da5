// PROXY headers of both versions are read exactly, however they are split; the client is whom they name. Redirects keep path and query.
// RX-02, HD-10
import net from 'node:net'
import t, { type Test } from 'tap'
import { redirectLocation } from '../../gateway/listener/listener.ts'
import { MAX_V1_BYTES, MAX_V2_BYTES, readProxyHeader } from '../../gateway/listener/proxy-protocol.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const latin1 = (text: string) => Buffer.from(text, 'latin1')
const SIGNATURE = latin1('\r\n\r\n\0\r\nQUIT\n')

const v2 = (command: number, family: number, block: Buffer, length = block.length) =>
  Buffer.concat([SIGNATURE, Buffer.from([command, family, length >> 8, length & 255]), block])

const TCP4_BLOCK = Buffer.from([203, 0, 113, 9, 10, 0, 0, 1, 0x9c, 0x41, 1, 187])
const TCP6_BLOCK = Buffer.concat([
  Buffer.from('20010db8000000000000000000000001', 'hex'),
  Buffer.from('20010db8000000000000000000000002', 'hex'),
  Buffer.from([0x9c, 0x41, 1, 187])
])
const TLV = Buffer.from([0x01, 0, 2, 0x68, 0x32])
const LONGEST_V1 = `PROXY UNKNOWN ${'f'.repeat(MAX_V1_BYTES - 16)}\r\n`

const ACCEPTED: readonly (readonly [name: string, bytes: Buffer, peer: string | undefined])[] = [
  ['v1 over IPv4', latin1('PROXY TCP4 203.0.113.9 10.0.0.1 40001 443\r\n'), '203.0.113.9'],
  ['v1 over IPv6', latin1('PROXY TCP6 2001:db8::1 ::1 65535 0\r\n'), '2001:db8::1'],
  ['v1 UNKNOWN', latin1('PROXY UNKNOWN\r\n'), undefined],
  ['v1 UNKNOWN with addresses', latin1('PROXY UNKNOWN 1.2.3.4 5.6.7.8 1 2\r\n'), undefined],
  ['the longest v1', latin1(LONGEST_V1), undefined],
  ['v2 over IPv4', v2(0x21, 0x11, TCP4_BLOCK), '203.0.113.9'],
  ['v2 over IPv6', v2(0x21, 0x21, TCP6_BLOCK), '2001:db8::1'],
  ['v2 with TLVs', v2(0x21, 0x11, Buffer.concat([TCP4_BLOCK, TLV])), '203.0.113.9'],
  [
    'v2 with bytes behind its addresses that are no TLV',
    v2(0x21, 0x11, Buffer.concat([TCP4_BLOCK, Buffer.from([9])])),
    '203.0.113.9'
  ],
  ['v2 LOCAL', v2(0x20, 0x00, Buffer.alloc(0)), undefined],
  ['v2 LOCAL with addresses', v2(0x20, 0x11, TCP4_BLOCK), undefined],
  ['v2 without a family', v2(0x21, 0x00, TLV), undefined],
  ['v2 from a Unix socket', v2(0x21, 0x31, Buffer.alloc(216)), undefined],
  ['the longest v2', v2(0x20, 0x00, Buffer.alloc(MAX_V2_BYTES - 16)), undefined]
]

const REFUSED: readonly (readonly [name: string, bytes: Buffer])[] = [
  ['a request', latin1('GET / HTTP/1.1\r\nHost: a\r\n\r\n')],
  ['a ClientHello', Buffer.from([0x16, 3, 1, 2, 0])],
  ['a signature in lower case', latin1('proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n')],
  ['a bare LF', latin1('PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n')],
  ['v1 without an end', latin1(`PROXY UNKNOWN ${'f'.repeat(MAX_V1_BYTES)}`)],
  ['v1 one byte too long', latin1(LONGEST_V1.replace('\r\n', 'f\r\n'))],
  ['two blanks', latin1('PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n')],
  ['a blank at the end', latin1('PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n')],
  ['a port with a leading zero', latin1('PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n')],
  ['a port beyond 65535', latin1('PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n')],
  ['a port missing', latin1('PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n')],
  ['an octal address', latin1('PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n')],
  ['an IPv6 address as TCP4', latin1('PROXY TCP4 ::1 ::1 1 2\r\n')],
  ['an IPv4 address as TCP6', latin1('PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n')],
  ['UDP4', latin1('PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n')],
  ['UNKNOWN with a longer word', latin1('PROXY UNKNOWNS\r\n')],
  ['v2 of another version', v2(0x11, 0x11, TCP4_BLOCK)],
  ['v2 with another command', v2(0x22, 0x11, TCP4_BLOCK)],
  ['v2 over UDP', v2(0x21, 0x12, TCP4_BLOCK)],
  ['v2 of an unknown family', v2(0x21, 0x41, TCP4_BLOCK)],
  ['v2 too short for IPv4', v2(0x21, 0x11, TCP4_BLOCK.subarray(0, 11))],
  ['v2 too short for IPv6', v2(0x21, 0x21, TCP4_BLOCK)],
  ['v2 too long', v2(0x20, 0x00, Buffer.alloc(0), 65535)]
]

const BEHIND = latin1('GET / HTTP/1.1\r\n\r\nPROXY UNKNOWN\r\n')

t.test('a PROXY header names the client, whatever follows it and however its bytes are split', async t => {
  for (const [name, header, peer] of ACCEPTED) {
    t.strictSame(readProxyHeader(header), { state: 'complete', length: header.length, peer }, name)
    const all = Buffer.concat([header, BEHIND])
    for (let known = 0; known < all.length; known++) {
      const read = readProxyHeader(all.subarray(0, known))
      const expected = known < header.length ? { state: 'incomplete' } : { length: header.length, peer }
      t.match(read, expected, `${name}, ${known} bytes`)
    }
  }
})

t.test('what is no PROXY header is refused, and no beginning of it is taken for a whole one', async t => {
  for (const [name, bytes] of REFUSED) {
    t.match(readProxyHeader(bytes), { state: 'refused', reason: /^an? |^no |^another / }, name)
    for (let known = 0; known < bytes.length; known++) {
      t.not(readProxyHeader(bytes.subarray(0, known)).state, 'complete', `${name}, ${known} bytes`)
    }
  }
})

t.test('a header that will never be one is refused before more than its bound was kept', async t => {
  t.equal(readProxyHeader(latin1('PROXY '.padEnd(MAX_V1_BYTES - 1, 'x'))).state, 'incomplete')
  t.equal(readProxyHeader(latin1('PROXY '.padEnd(MAX_V1_BYTES, 'x'))).state, 'refused')
  t.equal(readProxyHeader(v2(0x20, 0x00, Buffer.alloc(0), MAX_V2_BYTES - 15)).state, 'refused', 'by its length alone')
  t.equal(readProxyHeader(Buffer.concat([SIGNATURE, Buffer.from([0x31])])).state, 'refused', 'by its version alone')
})

const startWorld = async (t: Test, env: Record<string, string> = {}) => {
  const upstream = await startRawUpstream(t)
  const world = await startGateway(t, {
    config: routesTo(upstream.url, [{ path: '/open/*', public: true }]),
    env: { PROXY_PROTOCOL: 'true', TRUST_PROXY: '127.0.0.1, 10.0.0.0/8', OPS_PORT: '0', ...env }
  })
  return { upstream, world }
}

/** All that comes back until the gateway closes. */
const send = (port: number, text: string, localAddress = '127.0.0.1') =>
  new Promise<string>(resolve => {
    const socket = net.connect({ port, host: '127.0.0.1', localAddress })
    let received = ''
    socket.on('data', data => {
      received += data.toString('latin1')
    })
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(received))
    socket.write(text, 'latin1')
  })

const get = (more = '') => `GET /open/x HTTP/1.1\r\nHost: gw\r\n${more}Connection: close\r\n\r\n`

t.test('the client is whom the PROXY header names, and what it forwards counts only if it is trusted too', async t => {
  const { upstream, world } = await startWorld(t)
  const cases: readonly [named: string, sent: string, forwardedFor: string][] = [
    ['TCP4 203.0.113.9 10.0.0.1 40001 443', '', '203.0.113.9'],
    ['TCP4 203.0.113.9 10.0.0.1 40001 443', 'X-Forwarded-For: 198.51.100.7\r\n', '203.0.113.9'],
    ['TCP6 2001:db8::1 ::1 40001 443', '', '2001:db8::1'],
    ['TCP4 10.1.2.3 10.0.0.1 40001 443', 'X-Forwarded-For: 198.51.100.7\r\n', '198.51.100.7, 10.1.2.3'],
    ['UNKNOWN', 'X-Forwarded-For: 198.51.100.7\r\n', '198.51.100.7, 127.0.0.1']
  ]
  for (const [named, sent, forwardedFor] of cases) {
    const before = upstream.received().length
    t.match(await send(world.port, `PROXY ${named}\r\n${get(sent)}`), /^HTTP\/1\.1 200 /, named)
    const received = upstream.received().slice(before)
    t.equal(/\r\nx-forwarded-for: (.*)\r\n/.exec(received)?.[1], forwardedFor, `${named} ${sent}`)
  }
  t.match(await world.logged(line => line.ip === '203.0.113.9'), { level: 30 })
})

t.test('violations close the connection without an answer; one line and a metric tell of them', async t => {
  const { upstream, world } = await startWorld(t)
  t.equal(await send(world.port, get()), '')
  t.equal(await send(world.port, `PROXY TCP4 1.2.3.4\r\n${get()}`), '')
  t.match(
    await send(world.port, `PROXY UNKNOWN\r\n${get()}`, '127.0.0.2'),
    /^HTTP\/1\.1 400 /,
    'others may not send one'
  )
  t.match(await send(world.port, get(), '127.0.0.2'), /^HTTP\/1\.1 200 /)
  t.equal(upstream.received().match(/^GET /gm)?.length, 1)
  t.match(await world.logged(line => line.msg.includes('PROXY header')), {
    level: 40,
    peer: '127.0.0.1',
    connections: 1
  })
  const metrics = await (await fetch(`http://127.0.0.1:${world.gateway.opsPort}/metrics`)).text()
  t.match(metrics, /^portaria_proxy_header_violations_total 2$/m)
})

t.test('path and query are kept on the public origin, whatever form the target has', async t => {
  const locations: readonly [target: string, location: string][] = [
    ['/', 'https://gw.example/'],
    ['/a/b?c=d&e', 'https://gw.example/a/b?c=d&e'],
    ['//evil.example/x', 'https://gw.example//evil.example/x'],
    ['http://evil.example/a?b', 'https://gw.example/a?b'],
    ['http://evil.example', 'https://gw.example/'],
    ['http://evil.example?b', 'https://gw.example/?b'],
    ['*', 'https://gw.example/'],
    ['evil.example:443', 'https://gw.example/'],
    ['@evil.example/', 'https://gw.example/'],
    ['/a#b', 'https://gw.example/a'],
    ['/\xe9', 'https://gw.example/%E9'],
    [`/${'a'.repeat(9000)}`, 'https://gw.example/']
  ]
  for (const [target, location] of locations) t.equal(redirectLocation('https://gw.example', target), location, target)
})
