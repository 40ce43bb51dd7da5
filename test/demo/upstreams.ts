// Serves the demo's backend, which has no login of its own: an orders API, a stream of events, applications, and two public pages.
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Test } from 'tap'
import { isBuilt, PACKAGE_FOLDER } from '../../gateway/values/package-files.ts'
import { listen } from '../support/ports.ts'
import { answerApp } from './sample-apps.ts'

interface Order {
  readonly id: number
  readonly customer: string
  readonly total: string
}

const EVENT_INTERVAL_MS = 1000
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
const page = (name: string) => join(PACKAGE_FOLDER, isBuilt ? 'dist/demo-pages' : 'test/demo/pages', name)
const SOCKET_IO = isBuilt
  ? page('socket.io.js')
  : join(PACKAGE_FOLDER, 'node_modules/socket.io-client/dist/socket.io.js')

/** Public files by path: content type, and where the file lies. */
const FILES: Readonly<Record<string, readonly [type: string, file: string]>> = {
  '/': ['text/html', page('start.html')],
  '/messaging-demo': ['text/html', page('messaging.html')],
  '/messaging-demo/': ['text/html', page('messaging.html')],
  '/messaging-demo/messaging.js': ['text/javascript', page('messaging.js')],
  '/messaging-demo/demo.css': ['text/css', page('demo.css')],
  '/messaging-demo/socket.io.js': ['text/javascript', SOCKET_IO]
}

/** Resolves to its URL. */
export const startDemoUpstream = async (t: Pick<Test, 'teardown'>): Promise<string> => {
  const orders = sampleOrders()
  const server = createServer((request, response) => {
    request.resume()
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    if (path === '/api/events') sendEvents(response)
    else if (path.startsWith('/api/')) sendJson(response, ...answerApi(orders, path, request))
    else sendPage(response, answerApp(path, request.headers) ?? readPage(path))
  })
  return `http://127.0.0.1:${await listen(t, server)}`
}

const sampleOrders = (): Map<number, Order> =>
  new Map(
    ['Padaria Aurora', 'Livraria Central', 'Café do Porto', 'Mercado São João'].map((customer, index) => {
      const id = index + 1
      return [id, { id, customer, total: `${(index * 37 + 12).toFixed(2)} BRL` }]
    })
  )

type Answer = [status: number, value: unknown]

const answerApi = (orders: Map<number, Order>, path: string, { method, headers }: IncomingMessage): Answer => {
  if (path === '/api/whoami') {
    return [200, Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-user-')))]
  }
  if (/^\/api\/orders\/?$/.test(path)) return [200, [...orders.values()]]
  const id = Number(/^\/api\/orders\/(\d{1,9})$/.exec(path)?.[1] ?? 0)
  const order = orders.get(id)
  if (order === undefined) return [404, { error: 'no such order' }]
  if (method !== 'DELETE') return [200, order]
  orders.delete(id)
  return [200, { deleted: order }]
}

const sendJson = (response: ServerResponse, status: number, value: unknown): void => {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(`${JSON.stringify(value)}\n`)
}

/** Server-sent events: one at once, then one each second until the reader leaves. */
const sendEvents = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  let count = 0
  const send = () => {
    count += 1
    response.write(`id: ${count}\nevent: order\ndata: {"order":${count},"status":"packed"}\n\n`)
  }
  send()
  const timer = setInterval(send, EVENT_INTERVAL_MS)
  response.once('close', () => clearInterval(timer))
}

const readPage = (path: string): [type: string, text: string] | undefined => {
  const [type, file] = FILES[path] ?? []
  return type === undefined || file === undefined ? undefined : [type, readFileSync(file, 'utf8')]
}

const sendPage = (response: ServerResponse, found: readonly [type: string, text: string] | undefined): void => {
  if (found === undefined) {
    sendJson(response, 404, { error: 'no such page' })
    return
  }
  const [type, text] = found
  response.writeHead(200, {
    'content-type': `${type}; charset=utf-8`,
    'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff'
  })
  response.end(text)
}
