// Opens a listener for operators only: liveness, readiness and metrics.
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface OpsListenerOptions {
  readonly port: number
  readonly host: string
  readonly metrics: { readonly contentType: string; text(): Promise<string> }
  /** `ready`, or a word that says why it is not ready. */
  readonly readiness: () => Promise<string> | string
  /** Open connections allowed. */
  readonly most?: number
  /** A client that sends nothing and takes nothing of a response for so long loses its connection, which others may need. */
  readonly stallMs?: number
}

/** Of the metric `portaria_ready`. */
export const READY_HELP = 'Whether the instance is ready, as `/ready` says'

const send = (res: ServerResponse, status: number, type: string, text: string) => {
  res.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff'
  })
  res.end(text)
}

const PLAIN = 'text/plain; charset=utf-8'

const answer = async (req: IncomingMessage, res: ServerResponse, options: OpsListenerOptions): Promise<void> => {
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    res.setHeader('allow', 'GET, HEAD')
    return send(res, 405, PLAIN, 'only GET\n')
  }
  switch (req.url?.split('?', 1)[0]) {
    // A response is proof of life: a blocked event loop sends none.
    case '/live':
      return send(res, 200, PLAIN, 'live\n')
    case '/ready': {
      const word = await options.readiness()
      return send(res, word === 'ready' ? 200 : 503, PLAIN, `${word}\n`)
    }
    case '/metrics':
      return send(res, 200, options.metrics.contentType, await options.metrics.text())
    default:
      return send(res, 404, PLAIN, 'nothing here\n')
  }
}

/** Rejects if the port is unavailable. Never keeps the process alive. */
export const openOpsListener = async (options: OpsListenerOptions) => {
  const { most = 64, stallMs = 30_000 } = options
  const server = http.createServer({ maxHeaderSize: 8 * 1024, requestTimeout: 10_000 }, (req, res) => {
    answer(req, res, options).catch(() => {
      if (!res.headersSent) send(res, 500, PLAIN, 'failed\n')
      else res.destroy()
    })
  })
  server.maxConnections = most
  server.setTimeout(stallMs)
  await once(server.listen(options.port, options.host), 'listening')
  server.unref()
  return {
    port: (server.address() as AddressInfo).port,
    async close(): Promise<void> {
      const closed = once(server, 'close')
      server.close().closeAllConnections()
      await closed
    }
  }
}
