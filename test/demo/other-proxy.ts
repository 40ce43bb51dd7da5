// Asks the gateway who may pass (forward-auth), as nginx, Caddy and Traefik do, and shows the answer.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { listen } from '../support/ports.ts'

/** What it protects is one page that says who is there. Resolves to its URL. */
export const startOtherProxy = async (t: Pick<Test, 'teardown'>, gatewayUrl: string): Promise<string> => {
  const server = createServer((request, response) => {
    request.resume()
    pass(gatewayUrl, request, response).catch(() => response.writeHead(502).end())
  })
  return `http://localhost:${await listen(t, server)}`
}

const pass = async (gatewayUrl: string, request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const { authorization } = request.headers
  const asked = await fetch(`${gatewayUrl}/auth/forward`, {
    redirect: 'manual',
    headers: {
      'x-forwarded-method': request.method ?? 'GET',
      'x-forwarded-uri': request.url ?? '/',
      'x-forwarded-host': request.headers.host ?? '',
      ...(authorization === undefined ? {} : { authorization })
    }
  })
  const text = asked.ok ? `passed as ${asked.headers.get('x-user-username')}\n` : await asked.text()
  const type = asked.ok ? 'text/plain; charset=utf-8' : (asked.headers.get('content-type') ?? 'text/plain')
  response.writeHead(asked.status, { 'content-type': type }).end(text)
}
