// What a backend says before it has read a whole upload reaches the client, although writing the rest of the upload fails.
import net from 'node:net'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'

const CLIENTS = 40
const PIECE = Buffer.alloc(65_536, 'u')
const PIECES = 320

const authority = createCertificateAuthority(t.testdir({}))
const certificate = authority.issue('backend')
const options = pemOf(certificate)
const postgres = await startPostgres(t)

/** Reads a part of an upload, answers, and closes with the rest unread, which resets the connection. */
const startHasty = async (t: Test, isTls: boolean): Promise<string> => {
  const onConnection = (socket: net.Socket) => {
    let got = 0
    socket.on('error', () => socket.destroy())
    socket.on('data', bytes => {
      got += bytes.length
      if (got < 200_000) return
      socket.pause()
      const head = `HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\n`
      socket.write(`${head}too large`, () => socket.destroy())
    })
  }
  const server = isTls ? tls.createServer(options, onConnection) : net.createServer(onConnection)
  return `${isTls ? 'https' : 'http'}://127.0.0.1:${await listen(t, server)}`
}

/** Resolves with the response, as far as it came. */
const upload = (port: number): Promise<string> =>
  new Promise(resolve => {
    const socket = net.connect(port, '127.0.0.1')
    let received = ''
    let sent = 0
    const send = () => {
      while (sent < PIECES && !socket.destroyed) {
        sent++
        if (!socket.write(PIECE)) return
      }
    }
    socket.write(`POST /x HTTP/1.1\r\nHost: gw\r\nContent-Length: ${PIECES * PIECE.length}\r\n\r\n`)
    send()
    socket.on('drain', send)
    socket.on('data', bytes => {
      received += bytes.toString('latin1')
      if (received.endsWith('too large')) socket.destroy()
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => resolve(received))
  })

for (const isTls of [false, true])
  t.test(`every client gets the early refusal of an upload, ${isTls ? 'over TLS' : 'in plain text'}`, async t => {
    // RV-07, SM-25
    const b = { url: await startHasty(t, isTls), connectTimeout: '30s', ...(isTls ? { caFile: authority.caFile } : {}) }
    const world = await startGateway(t, {
      postgres,
      config: routesTo(b, [{ path: '/x', public: true }])
    })
    const answers = await Promise.all(Array.from({ length: CLIENTS }, () => upload(world.port)))
    t.same(
      answers.filter(answer => !/^HTTP\/1\.1 413 [\s\S]*too large$/.test(answer)).map(answer => answer.slice(0, 40)),
      []
    )
  })
