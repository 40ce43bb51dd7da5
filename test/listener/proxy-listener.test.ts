// Behind a balancer the client is whom the PROXY header names; redirects keep path and query.
// HD-10, RX-02
import net from 'node:net'
import t, { type Test } from 'tap'
import { redirectLocation } from '../../gateway/listener/listener.ts'
import { startGateway } from '../support/gateway.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const startWorld = async (t: Test, env: Record<string, string> = {}) => {
  const upstream = await startRawUpstream(t)
  const world = await startGateway(t, {
    config: {
      upstreams: { back: { url: upstream.url } },
      routes: [{ path: '/open/*', upstream: 'back', public: true }]
    },
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
