// Checks which certificates the gateway accepts from backends, and which one it shows them.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer, type ServerOptions } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket, switchingProtocols } from '../support/raw-websocket.ts'

const folder = t.testdir({})
const authority = createCertificateAuthority(folder)
const server = authority.issue('backend', { names: ['DNS:orders.internal'] })
const pem = (file: string) => readFileSync(file, 'utf8')

/** A backend that tells which name it was asked for, and by whom. */
const startBackend = async (t: Test, options: ServerOptions = {}): Promise<string> => {
  const backend = createServer(
    { key: pem(server.keyFile), cert: pem(server.certFile), ca: authority.ca, ...options },
    (req, res) => {
      const socket = req.socket as TLSSocket & { servername?: string }
      res.setHeader('connection', 'close')
      res.end(JSON.stringify({ name: socket.servername, by: socket.getPeerCertificate().subject?.CN }))
    }
  )
  return `https://127.0.0.1:${await listen(t, backend)}`
}

const routes = [{ path: '/x', upstream: 'tls', public: true }]

t.test('a backend is reached under the name in its certificate, not under any other', async t => {
  const url = await startBackend(t)
  const tls = { url, caFile: authority.caFile, serverName: 'orders.internal' }
  const world = await startGateway(t, { config: { upstreams: { tls }, routes } })
  t.same(await world.json('/x'), { name: 'orders.internal' })
  world.writeRoutes({ upstreams: { tls: { ...tls, serverName: 'people.internal' } }, routes })
  t.ok(await world.gateway.reload())
  t.equal((await world.fetch('/x')).status, 502)
})

t.test('a backend that wants a certificate sees the gateway’s, and the new one after it was replaced', async t => {
  const url = await startBackend(t, { requestCert: true, rejectUnauthorized: true })
  const [first, second] = [authority.issue('gateway-1'), authority.issue('gateway-2')]
  const [certFile, keyFile] = [join(folder, 'used.crt'), join(folder, 'used.key')]
  const use = ({ certFile: cert, keyFile: key }: typeof first) => {
    writeFileSync(`${certFile}.next`, pem(cert))
    writeFileSync(`${keyFile}.next`, pem(key))
    renameSync(`${certFile}.next`, certFile)
    renameSync(`${keyFile}.next`, keyFile)
  }
  use(first)
  const tls = { url, caFile: authority.caFile, serverName: 'orders.internal' }
  const upstreams = { tls: { ...tls, clientCertFile: certFile, clientKeyFile: keyFile } }
  const world = await startGateway(t, { config: { upstreams, routes } })
  t.match(await world.json('/x'), { by: 'gateway-1' })

  writeFileSync(keyFile, pem(second.keyFile))
  await world.logged(({ msg }) => msg === 'route files not reloaded; the previous table stays in use')
  t.match(await world.json('/x'), { by: 'gateway-1' }, 'half a change changes nothing')
  use(second)
  await world.logged(({ msg }) => msg === 'route files reloaded')
  t.match(await world.json('/x'), { by: 'gateway-2' })

  world.writeRoutes({ upstreams: { tls }, routes })
  t.ok(await world.gateway.reload())
  t.equal((await world.fetch('/x')).status, 502, 'without a certificate the backend refuses')
})

t.test('a target that closes during the TLS handshake has received nothing, so another one is asked', async t => {
  const closing = createTcpServer(socket => {
    socket.on('error', () => undefined).once('data', () => socket.end())
  })
  const up = await startRawUpstream(t, server)
  up.respond(({ head }) => (/^upgrade:/im.test(head) ? switchingProtocols(head) : OK))
  const targets = [`https://127.0.0.1:${await listen(t, closing)}`, up.url]
  const upstream = { targets, caFile: authority.caFile, serverName: 'orders.internal' }
  const world = await startGateway(t, {
    config: {
      upstreams: { requests: upstream, sockets: upstream },
      routes: [
        { path: '/requests', upstream: 'requests', public: true },
        { path: '/sockets', upstream: 'sockets', public: true, websocket: {} }
      ]
    }
  })
  const down = () => world.log.filter(({ msg }) => msg === 'an upstream target is down').map(({ upstream: of }) => of)
  for (let i = 0; i < 2; i++) t.equal((await world.fetch('/requests')).status, 200)
  t.same(down(), ['requests'])
  for (let i = 0; i < 2; i++) {
    const { head, socket } = await rawWebSocket(world.port, { path: '/sockets' })
    t.match(head(), /^HTTP\/1\.1 101 /)
    socket.destroy()
  }
  t.same(down(), ['requests', 'sockets'])
})
