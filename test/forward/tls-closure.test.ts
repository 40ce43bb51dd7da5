// Answers that end with their connection: over TLS, only a closure alert tells a whole one from one that was cut short.
import net from 'node:net'
import { Duplex } from 'node:stream'
import tls, { type SecureVersion } from 'node:tls'
import t, { type Test } from 'tap'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { upstreamAt } from '../support/routes.ts'
import { GET, openConnection, requesterOf } from '../support/upstream-connections.ts'

const authority = createCertificateAuthority(t.testdir({}))
const files = authority.issue('backend')
const secureContext = (version: SecureVersion) =>
  tls.createSecureContext({ ...pemOf(files), minVersion: version, maxVersion: version })

/** What ends an answer: the alert of TLS, the end of the TCP connection, or both. */
type End = 'alert and FIN' | 'alert' | 'FIN'
const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\npart of'

/** @param atOnce the answer and the alert arrive in one piece */
const startBackend = async (t: Test, version: SecureVersion, end: End, atOnce: boolean): Promise<number> => {
  const server = net.createServer(near => {
    const held: Buffer[] = []
    let isHeld = false
    const wire = new Duplex({
      read: () => undefined,
      write(chunk: Buffer, _encoding, done) {
        if (isHeld) held.push(chunk)
        else near.write(chunk)
        done()
      },
      final(done) {
        near.write(Buffer.concat(held))
        if (end === 'alert and FIN') near.end()
        done()
      }
    })
    near.on('data', chunk => wire.push(chunk))
    near.on('error', () => undefined)
    t.teardown(() => near.destroy())
    const socket = new tls.TLSSocket(wire, { isServer: true, secureContext: secureContext(version) })
    socket.on('error', () => undefined)
    socket.once('data', () => {
      isHeld = atOnce
      if (end === 'FIN') socket.write(ANSWER, () => near.end())
      else socket.end(ANSWER)
    })
  })
  return await listen(t, server)
}

const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const
const CASES = VERSIONS.flatMap(version => (['alert and FIN', 'alert', 'FIN'] as const).map(end => ({ version, end })))

t.test('an answer until close is complete if it ends with a closure alert, and else broken off', async t => {
  // RV-15: without an alert the client got a complete chunked answer.
  const ports = await Promise.all(CASES.map(({ version, end }) => startBackend(t, version, end, false)))
  const backends = ports.map(port => ({ url: `https://127.0.0.1:${port}`, caFile: authority.caFile }))
  const world = await startGateway(t, {
    config: {
      upstreams: Object.fromEntries(backends.map((backend, i) => [`b${i}`, backend])),
      routes: backends.map((_, i) => ({ path: `/${i}`, upstream: `b${i}`, public: true }))
    }
  })
  for (const [i, { version, end }] of CASES.entries()) {
    const response = await world.fetch(`/${i}`)
    t.equal(response.status, 200)
    const text = await response.text().catch(() => 'broken off')
    t.equal(text, end === 'FIN' ? 'broken off' : 'part of', `${version}, ${end}`)
  }
})

for (const version of VERSIONS)
  t.test(`over ${version}, an alert that arrives with bytes which are not taken yet completes the answer`, async t => {
    const port = await startBackend(t, version, 'alert', true)
    const secure = upstreamAt(port).targets.map(target => ({ ...target, tls: true }))
    const connection = openConnection(t, { ...upstreamAt(port), targets: secure, ca: authority.ca })
    const fault = await new Promise(resolve => {
      const requester = requesterOf({
        onBody: () => {
          connection.pause()
          setImmediate(() => connection.resume())
        },
        onEnd: () => resolve(undefined),
        onFault: (_fault, cause) => resolve(cause)
      })
      connection.send('GET', GET, requester, 1000)
      connection.finish()
    })
    t.equal(fault, undefined)
  })
