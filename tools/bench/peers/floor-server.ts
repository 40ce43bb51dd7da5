// The least that Node can do, as MODE says, on PORT before UPSTREAM_PORT: what no gateway in Node can be cheaper than.
import http from 'node:http'
import net from 'node:net'
import { BODY_BYTES } from '../upstream.ts'

const port = Number(process.env.PORT)
const upstreamPort = Number(process.env.UPSTREAM_PORT)
const dial = (options: Partial<net.TcpNetConnectOpts> = {}) =>
  net.connect({ port: upstreamPort, host: '127.0.0.1', noDelay: true, ...options })

const relay = () =>
  net.createServer({ noDelay: true }, client => {
    const upstream = dial()
    client.on('data', bytes => upstream.write(bytes))
    upstream.on('data', bytes => client.write(bytes))
    client.on('error', () => upstream.destroy())
    upstream.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
  })

const answer = () => {
  const body = 'portaria'.repeat(BODY_BYTES / 8)
  return http.createServer((_, res) => {
    res.writeHead(200, ['content-type', 'text/plain', 'content-length', String(body.length)]).end(body)
  })
}

interface Warm {
  readonly socket: net.Socket
  onAnswer: (answer: string) => void
}

/** Expects each answer of the upstream whole in one read, which holds on loopback for 1 KB. */
const forward = () => {
  const idle: Warm[] = []
  const buffer = Buffer.allocUnsafeSlow(64 * 1024)
  const connect = (): Warm => {
    const callback = (bytes: number) => {
      idle.push(warm)
      warm.onAnswer(buffer.toString('latin1', 0, bytes))
      return true
    }
    const warm: Warm = { socket: dial({ onread: { buffer, callback } }), onAnswer: () => undefined }
    return warm
  }
  return http.createServer((req, res) => {
    let head = `${req.method} ${req.url} HTTP/1.1\r\n`
    for (let i = 0; i < req.rawHeaders.length; i += 2) head += `${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}\r\n`
    const warm = idle.pop() ?? connect()
    warm.onAnswer = text => {
      const bodyAt = text.indexOf('\r\n\r\n') + 4
      res.writeHead(200, ['content-type', 'text/plain', 'content-length', String(text.length - bodyAt)])
      res.end(text.slice(bodyAt), 'latin1')
    }
    warm.socket.write(`${head}\r\n`, 'latin1')
  })
}

const modes = { relay, answer, forward }
const isMode = (text: string | undefined): text is keyof typeof modes => text !== undefined && text in modes
const { MODE } = process.env
if (!isMode(MODE)) throw new Error(`MODE must be one of ${Object.keys(modes).join(', ')}`)
modes[MODE]().listen(port, '127.0.0.1')
