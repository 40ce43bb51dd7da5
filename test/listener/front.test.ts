// Connections reach HTTP after their PROXY header and inside TLS, or are closed.
// RX-02, HD-10
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import net from 'node:net'
import tls from 'node:tls'
import t from 'tap'
import { initialState } from '../../gateway/listener/certificates.ts'
import { createFront, type FrontParts } from '../../gateway/listener/front.ts'
import { checkPair } from '../../gateway/settings/certificate-pair.ts'
import { type CertificateFiles, createCertificateAuthority } from '../support/certificates.ts'
import { placesFor } from '../support/http-listener.ts'

type Test = Pick<typeof import('tap').default, 'testdir' | 'teardown'>

const stateOf = ({ certFile, keyFile }: CertificateFiles) => {
  const pair = checkPair(readFileSync(certFile, 'utf8'), readFileSync(keyFile, 'utf8'))
  if ('message' in pair) throw new Error(pair.message)
  return initialState([{ certFile, keyFile, pair }])
}

/** A listener that answers every line with whom it takes for its peer. */
const startFront = async (t: Test, parts: Partial<FrontParts>) => {
  const refusals: string[] = []
  const front = createFront({
    accept: (socket, { peer, isTls = false }) => {
      socket.on('error', () => socket.destroy())
      socket.on('end', () => socket.end())
      socket.on('data', data => socket.write(`${peer} ${isTls} ${data}`))
    },
    quota: placesFor(Number.POSITIVE_INFINITY),
    certificates: undefined,
    sendsProxyHeader: undefined,
    onRefused: reason => refusals.push(reason),
    ...parts
  })
  front.server.listen(0, '127.0.0.1')
  await once(front.server, 'listening')
  t.teardown(() => {
    front.endEarly()
    front.server.close()
  })
  return { front, refusals, port: (front.server.address() as net.AddressInfo).port }
}

/** The same over TLS, with a certificate named `one`. */
const startTlsFront = async (t: Test, parts: Partial<FrontParts> = {}) => {
  const authority = createCertificateAuthority(t.testdir({}))
  const started = await startFront(t, { certificates: stateOf(authority.issue('one')), ...parts })
  const connect = async (more: tls.ConnectionOptions = {}) => {
    const options = { port: started.port, host: '127.0.0.1', ca: authority.ca, servername: 'localhost', ...more }
    const socket = tls.connect(options)
    t.teardown(() => socket.destroy())
    await once(socket, 'secureConnect')
    return socket
  }
  return { ...started, authority, connect }
}

const dial = async (t: Test, port: number, localAddress = '127.0.0.1') => {
  const socket = net.connect({ port, host: '127.0.0.1', localAddress, noDelay: true })
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

const written = (socket: net.Socket, bytes: Buffer) =>
  new Promise<void>(resolve => socket.write(bytes, () => setImmediate(resolve)))

/** A reset is an end as well. */
const closed = (socket: net.Socket) =>
  new Promise<void>(resolve => {
    socket.on('error', () => undefined)
    socket.on('close', () => resolve())
  })

const HEADER = Buffer.from('PROXY TCP4 203.0.113.9 10.0.0.1 40001 443\r\n')
const isProxy = (peer: string | undefined) => peer === '127.0.0.1'

t.test('a client that resets its connection and uses the port again at once is served', async t => {
  // RW-69
  const { port } = await startTlsFront(t)
  const first = await dial(t, port)
  const firstTls = tls.connect({ socket: first, rejectUnauthorized: false })
  firstTls.write('a')
  await once(firstTls, 'data')
  const { localPort = 0 } = first
  // Both are done before the server hears of either.
  first.resetAndDestroy()
  const second = net.connect({ port, host: '127.0.0.1', localAddress: '127.0.0.1', localPort })
  const secondTls = tls.connect({ socket: second, rejectUnauthorized: false })
  t.teardown(() => secondTls.destroy())
  secondTls.write('b')
  t.match(String((await once(secondTls, 'data'))[0]), /true b$/)
})

t.test('TLS begins behind the PROXY header, also in the same segment', async t => {
  const { port, connect } = await startTlsFront(t, { sendsProxyHeader: isProxy })
  for (const cut of [0, 1, HEADER.length - 1, HEADER.length, HEADER.length + 1, HEADER.length + 100]) {
    const socket = await dial(t, port)
    // What TLS writes first leaves together with the header, cut where this round wants it.
    const relay = net.createServer({ pauseOnConnect: false }, async inner => {
      const hello = Buffer.concat([HEADER, (await once(inner, 'data'))[0] as Buffer])
      await written(socket, hello.subarray(0, cut))
      await written(socket, hello.subarray(cut))
      inner.pipe(socket).pipe(inner)
    })
    relay.listen(0, '127.0.0.1')
    await once(relay, 'listening')
    const client = await connect({ port: (relay.address() as net.AddressInfo).port })
    client.write('hello')
    const [data] = await once(client, 'data')
    t.equal(String(data), '203.0.113.9 true hello', `cut at ${cut}`)
    client.destroy()
    relay.close()
  }
})

t.test('a balancer that only looks whether the port is open is no violation', async t => {
  const { port, refusals } = await startFront(t, { sendsProxyHeader: isProxy })
  const socket = await dial(t, port)
  socket.end()
  socket.resume()
  await closed(socket)
  t.strictSame(refusals, [])
})

t.test('TLS is 1.2 at least, speaks HTTP/1.1 and serves the newest certificate to new connections', async t => {
  const { front, authority, connect } = await startTlsFront(t)
  const first = await connect({ ALPNProtocols: ['h2', 'http/1.1'] })
  t.equal(first.getPeerCertificate().subject.CN, 'one')
  t.equal(first.alpnProtocol, 'http/1.1')
  t.equal((await connect({ maxVersion: 'TLSv1.2' })).getProtocol(), 'TLSv1.2')
  await t.rejects(connect({ minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }))

  front.useCertificates(stateOf(authority.issue('two')))
  t.equal((await connect()).getPeerCertificate().subject.CN, 'two')
  first.write('still')
  t.equal(String((await once(first, 'data'))[0]), '127.0.0.1 true still')
})

t.test('a proxy, whose clients would share the bounds of one, gets HTTP/2 only if it speaks nothing else', async t => {
  for (const isProxy of [() => true, () => false]) {
    const { front, authority, connect } = await startTlsFront(t, { offersHttp2: true, isProxy })
    const protocolFor = async (...ALPNProtocols: string[]) => (await connect({ ALPNProtocols })).alpnProtocol
    t.equal(await protocolFor('h2', 'http/1.1'), isProxy() ? 'http/1.1' : 'h2')
    t.equal(await protocolFor('h2'), 'h2')
    t.equal(await protocolFor('http/1.1'), 'http/1.1')
    front.useCertificates(stateOf(authority.issue('two')))
    t.equal((await connect()).getPeerCertificate().subject.CN, 'two')
  }
})

t.test('what is no TLS is closed, and what never speaks is ended with the listener', async t => {
  const { port, front } = await startTlsFront(t)
  const plain = await dial(t, port)
  plain.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  plain.resume()
  await closed(plain)
  const silent = await dial(t, port)
  await written(silent, Buffer.from([0x16]))
  front.endEarly()
  silent.resume()
  await closed(silent)
})

t.test('a handshake that is under way when the end begins is completed', async t => {
  const { port, front, connect } = await startTlsFront(t)
  const accepted = once(front.server, 'connection')
  const plain = await dial(t, port)
  await accepted
  const over = front.endEarly(60_000)
  const client = await connect({ socket: plain })
  await over
  client.write('hello')
  t.equal(String((await once(client, 'data'))[0]), '127.0.0.1 true hello')
})

t.test('a connection that is still in its handshake has a place, which it leaves when it is lost', async t => {
  const { port, connect } = await startTlsFront(t, { quota: placesFor(2) })
  const [silent] = [await dial(t, port), await dial(t, port)]
  const refused = await dial(t, port)
  refused.on('data', () => t.fail('answered'))
  await closed(refused)

  silent?.destroy()
  for (;;) {
    const client = await connect().catch(() => undefined)
    if (client === undefined) continue
    client.write('hello')
    t.equal(String((await once(client, 'data'))[0]), '127.0.0.1 true hello')
    break
  }
})
