// Serves requests by the gateway's own server side on a free port, without the rest of a gateway.
import type { Socket } from 'node:net'
import tls from 'node:tls'
import type { Test } from 'tap'
import { createClientAddress } from '../../gateway/http/client-address.ts'
import type { HttpRequest } from '../../gateway/http/request.ts'
import { createHttpServer } from '../../gateway/http/server.ts'
import { type ConnectionQuota, createConnectionQuota } from '../../gateway/listener/connection-quota.ts'
import { openListener } from '../../gateway/listener/listener.ts'
import { createCertificateAuthority, pemOf } from './certificates.ts'
import { listen } from './ports.ts'

type Limits = NonNullable<Parameters<typeof createHttpServer>[0]['limits']>

/** Places of connections, of which an address has `most`. */
export const placesFor = (most: number) => createConnectionQuota({ most, clientAddress: createClientAddress([]) })

export const startListener = async (
  t: Pick<Test, 'teardown'>,
  onRequest: (request: HttpRequest) => void,
  {
    limits,
    quota = placesFor(Number.POSITIVE_INFINITY),
    redirectPort
  }: {
    limits?: Limits
    quota?: ConnectionQuota
    redirectPort?: number
  } = {}
) => {
  const server = createHttpServer({
    ...(limits === undefined ? {} : { limits }),
    handler: { onRequest, onFault: () => undefined }
  })
  const settings = {
    port: 0,
    host: '127.0.0.1',
    redirectPort,
    passedSockets: 0,
    http2: true,
    proxyProtocol: false
  }
  const listener = await openListener({
    server,
    settings,
    certificates: undefined,
    redirectOrigin: () => '',
    isTrusted: () => false,
    quota,
    onRefused: () => undefined
  })
  t.teardown(() => listener.drain(0))
  return { port: listener.port, server, listener }
}

/** The same with TLS, by HTTP/2 if nothing else is said, and where it is reached. */
export const startTlsServer = async (
  t: Pick<Test, 'teardown' | 'testdir'>,
  onRequest: (request: HttpRequest) => void,
  {
    limits,
    isHttp2 = true,
    onAccepted = () => undefined
  }: { limits?: Limits | undefined; isHttp2?: boolean; onAccepted?: (socket: Socket) => void } = {}
) => {
  const handler = { onRequest, onFault: () => undefined }
  const server = createHttpServer({ ...(limits === undefined ? {} : { limits }), handler })
  t.teardown(() => server.close())
  const authority = createCertificateAuthority(t.testdir({}))
  const options = { ALPNProtocols: [isHttp2 ? 'h2' : 'http/1.1'], allowHalfOpen: true }
  const listener = tls.createServer({ ...pemOf(authority.issue('one')), ...options }, socket => {
    onAccepted(socket)
    server.accept(socket, { isTls: true, isHttp2 })
  })
  return { server, place: { port: await listen(t, listener), ca: authority.ca } }
}
