// Several certificates are chosen by name, and each connection serves only the hosts of its own.
// RT-28, CF-13
import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { createCertificateNames } from '../../gateway/values/certificates.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { routesTo, startGateway, type WorldOptions } from '../support/gateway.ts'
import { askHttp2, connectHttp2 } from '../support/http2-client.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'
import { fc } from '../support/worlds.ts'

const NAMES: Record<string, string[]> = {
  first: ['DNS:localhost', 'DNS:gw.example', 'IP:127.0.0.1', 'IP:::1'],
  wild: ['DNS:*.corp.example'],
  exact: ['DNS:grafana.corp.example', 'DNS:Wiki.Other.example']
}

/** A gateway with three certificates: of its own host, of a wildcard, and of a host below the wildcard. */
const start = async (t: Test, options: WorldOptions = {}) => {
  const folder = t.testdir({})
  const authority = createCertificateAuthority(folder)
  const upstream = await startRawUpstream(t)
  const live = Object.entries(NAMES).map(([name, names]) => {
    const issued = authority.issue(name, { names })
    const files = { certFile: join(folder, `live-${name}.crt`), keyFile: join(folder, `live-${name}.key`) }
    copyFileSync(issued.certFile, files.certFile)
    copyFileSync(issued.keyFile, files.keyFile)
    return files
  })
  const world = await startGateway(t, {
    ...options,
    config: routesTo(upstream.url, [
      { path: '/open/*', public: true },
      { path: '/ws', websocket: {} }
    ]),
    env: {
      PUBLIC_URL: 'https://gw.example',
      TLS_CERT_FILE: live.map(({ certFile }) => certFile).join(', '),
      TLS_KEY_FILE: live.map(({ keyFile }) => keyFile).join(','),
      ...options.env
    }
  })
  const sessions: Buffer[] = []
  const connect = async (servername: string, more: tls.ConnectionOptions = {}) => {
    const socket = tls.connect({
      ...{ host: '127.0.0.1', port: world.port, ca: authority.ca, servername },
      // What is served is compared by the test itself.
      checkServerIdentity: () => undefined,
      ...more
    })
    t.teardown(() => socket.destroy())
    socket.on('session', session => sessions.push(session))
    await once(socket, 'secureConnect')
    return socket
  }
  /** Sends one head on a connection of its own. */
  const ask = async (servername: string, head: string, more: tls.ConnectionOptions = {}) => {
    const socket = await connect(servername, more)
    const [servedBy, isResumed] = [socket.getPeerCertificate().subject?.CN, socket.isSessionReused()]
    socket.write(`${head}\r\n\r\n`, 'latin1')
    let text = ''
    for await (const chunk of socket) {
      text += chunk
      const [head = '', body] = text.split('\r\n\r\n')
      if (body !== undefined && body.length >= Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0)) break
    }
    return { status: Number(text.split(' ')[1]), body: text.slice(text.indexOf('\r\n\r\n')), servedBy, isResumed }
  }
  const get = (servername: string, host: string, more?: tls.ConnectionOptions) =>
    ask(servername, `GET /open/x HTTP/1.1\r\nHost: ${host}\r\nConnection: close`, more)
  return { authority, world, live, upstream, sessions, ask, get }
}

const label = fc.constantFrom('a', 'b', 'corp', '*')
const name = fc.array(label, { minLength: 2, maxLength: 3 }).map(labels => labels.join('.'))

/** RFC 9525 §6.3, written another way: label by label, from the right. */
const isFor = (pattern: string, host: string): boolean => {
  const [wanted, given] = [pattern.split('.').reverse(), host.split('.').reverse()]
  const isLast = (i: number) => i === wanted.length - 1
  return wanted.length === given.length && wanted.every((one, i) => one === given[i] || (isLast(i) && one === '*'))
}

t.test('the first certificate with exactly the name is chosen, else the first with a wildcard, else the default', t => {
  const certificates = fc.array(fc.array(name, { maxLength: 3 }), { minLength: 1, maxLength: 4 })
  const host = name.filter(text => !text.includes('*'))
  fc.assert(
    fc.property(certificates, host, (all, host) => {
      const names = createCertificateNames(all)
      const exact = all.findIndex(own => own.includes(host))
      const wild = all.findIndex(own => own.some(pattern => pattern.startsWith('*') && isFor(pattern, host)))
      const chosen = exact !== -1 ? exact : Math.max(wild, 0)
      if (names.indexFor(host.toUpperCase()) !== chosen) throw new Error(`${host} of ${JSON.stringify(all)}`)
      for (const [index, own] of all.entries()) {
        const covers = own.some(pattern => pattern === host || (pattern.startsWith('*') && isFor(pattern, host)))
        if (names.covers(index, host) !== covers) throw new Error(`${own} ${host}`)
      }
    })
  )
  t.end()
})

t.test('a connection gets the certificate of the name it asks for, and other hosts are 421 on it', async t => {
  const { get } = await start(t)
  const hosts: Record<string, readonly string[]> = {
    first: ['gw.example', 'GW.example:8443', '127.0.0.1:3000', '[::1]:3000'],
    wild: ['wiki.corp.example', 'grafana.corp.example', 'GRAFANA.Corp.Example:443'],
    exact: ['grafana.corp.example', 'GRAFANA.Corp.Example:443', 'wiki.other.example']
  }
  const all = ['corp.example', 'a.b.corp.example', 'stranger.example', ...Object.values(hosts).flat()]
  const served: Record<string, readonly string[]> = {
    first: ['gw.example', 'GW.Example', 'corp.example', 'a.b.corp.example', 'stranger.example', ''],
    wild: ['wiki.corp.example', 'WIKI.corp.example'],
    exact: ['grafana.corp.example', 'Grafana.CORP.example', 'wiki.other.example']
  }
  for (const [certificate, servernames] of Object.entries(served)) {
    for (const servername of servernames) {
      for (const host of all) {
        const { status, servedBy, body } = await get(servername, host)
        t.equal(servedBy, certificate, servername)
        t.equal(status, hosts[certificate]?.includes(host) ? 200 : 421, `${servername} → ${host}`)
        if (status === 421) t.match(body, '"code":"GW_BAD_REQUEST","error":"Misdirected Request"')
      }
    }
  }
})

t.test('421 is the answer to whatever names another host, not to a trusted proxy or HTTP/1.0 without Host', async t => {
  const { ask, world, upstream } = await start(t)
  const heads: Record<string, string> = {
    absolute: 'GET https://gw.example/open/x HTTP/1.1\r\nHost: gw.example',
    health: 'GET /health HTTP/1.1\r\nHost: gw.example',
    login: 'GET /auth/login HTTP/1.1\r\nHost: gw.example',
    unknown: 'GET /nowhere HTTP/1.1\r\nHost: gw.example',
    body: 'POST /open/x HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 5\r\nExpect: 100-continue',
    socket:
      'GET /ws HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    stranger: 'GET /open/x HTTP/1.1\r\nHost: gw.example\r\nX-Forwarded-Host: wiki.corp.example',
    dot: 'GET /open/x HTTP/1.1\r\nHost: wiki.corp.example.'
  }
  for (const [what, head] of Object.entries(heads)) {
    t.equal((await ask('wiki.corp.example', head)).status, 421, what)
  }
  t.equal(upstream.requests.length, 0)
  t.equal((await world.logged(line => line.reason === 'misdirected')).status, 421)
  t.equal((await ask('wiki.corp.example', 'GET /open/x HTTP/1.0')).status, 200)

  const behind = await start(t, { env: { TRUST_PROXY: '127.0.0.1' } })
  t.equal((await behind.get('', 'wiki.corp.example')).status, 200, 'nginx names no host to those behind it')
})

// A browser puts requests for all names of a certificate on one connection (RFC 9113 §9.1.1).
t.test('over HTTP/2 each request of a connection is held against its certificate', async t => {
  const { authority, world } = await start(t)
  const options = { servername: 'grafana.corp.example', checkServerIdentity: () => undefined }
  const session = await connectHttp2(t, { port: world.port, ca: authority.ca }, options)
  for (const [host, status] of [
    ['grafana.corp.example', 200],
    ['wiki.corp.example', 421],
    ['wiki.other.example:443', 200]
  ] as const)
    t.match(await askHttp2(session, { ':path': '/open/x', ':authority': host }), { status }, host)
})

t.test('a resumed session counts for the name asked for now, or in TLS 1.2 for all names', async t => {
  const { sessions, get } = await start(t)
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    await get('wiki.corp.example', 'wiki.corp.example', { maxVersion })
    const session = sessions.at(-1)
    const again = await get('wiki.corp.example', 'wiki.corp.example', { maxVersion, session })
    t.match(again, { status: 200, isResumed: true }, maxVersion)
    t.equal((await get('wiki.corp.example', 'stranger.example', { maxVersion, session })).status, 421, maxVersion)
    const other = await get('grafana.corp.example', 'gw.example', { maxVersion, session })
    if (maxVersion === 'TLSv1.3') t.equal(other.status, 421)
  }
})

t.test('each certificate is replaced alone; health, log and metrics name the one that cannot be used', async t => {
  const { authority, world, live, ask, get } = await start(t, { env: { OPS_PORT: '0' } })
  const metrics = async () => (await fetch(`http://127.0.0.1:${world.gateway.opsPort}/metrics`)).text()
  const health = async () => (await ask('gw.example', 'GET /health HTTP/1.1\r\nHost: gw.example')).body
  const [first, wild, exact] = live
  if (first === undefined || wild === undefined || exact === undefined) throw new Error('three certificates')
  t.match(await health(), '"tls":"ok"')

  writeFileSync(wild.keyFile, readFileSync(exact.keyFile))
  const line = await world.logged(({ msg }) => msg.startsWith('the certificate files cannot be used'))
  t.match(line, { variable: 'TLS_KEY_FILE', file: wild.certFile })
  const text = await metrics()
  for (const { certFile } of live) {
    t.match(text, `portaria_tls_certificate_ok{file="${certFile}"} ${certFile === wild.certFile ? 0 : 1}\n`)
    t.match(text, `portaria_tls_certificate_expires_timestamp_seconds{file="${certFile}"} 4102`)
  }
  t.equal((await get('wiki.corp.example', 'wiki.corp.example')).servedBy, 'wild')
  t.match(await health(), '"tls":"degraded"')

  const renewed = authority.issue('renewed', { names: ['DNS:grafana.corp.example', 'DNS:new.other.example'] })
  copyFileSync(renewed.certFile, exact.certFile)
  copyFileSync(renewed.keyFile, exact.keyFile)
  const ownTimeMs = measureOwnTime()
  await until(async () => (await get('grafana.corp.example', 'grafana.corp.example')).servedBy === 'renewed')
  t.ok(ownTimeMs() < 2000, `${ownTimeMs()} ms`)
  t.match(await get('new.other.example', 'new.other.example'), { servedBy: 'renewed', status: 200 })
  t.equal((await get('wiki.other.example', 'wiki.other.example')).status, 421, 'the new one is no longer for it')
  t.equal(await world.gateway.reload(), false, 'one of them is still not in use')
})
