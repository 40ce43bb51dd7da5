// A proxy of another make asks the gateway who may pass (forward-auth), as nginx, Caddy and Traefik do, and shows the answer.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface OtherProxy {
  readonly url: string
  close(): Promise<void>
}

/** Listens on a free port of 127.0.0.1; what it protects is one page that says who is there. */
export const startOtherProxy = async (gatewayUrl: string): Promise<OtherProxy> => {
  const server = createServer((request, response) => {
    request.resume()
    pass(gatewayUrl, request, response).catch(() => response.writeHead(502).end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    }
  }
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
