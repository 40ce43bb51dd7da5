// Serves requests by the gateway's own server side on a free port, without the rest of a gateway.
import type { Test } from 'tap'
import { createClientAddress } from '../../gateway/http/client-address.ts'
import type { HttpRequest } from '../../gateway/http/request.ts'
import { createHttpServer } from '../../gateway/http/server.ts'
import { type ConnectionQuota, createConnectionQuota } from '../../gateway/listener/connection-quota.ts'
import { openListener } from '../../gateway/listener/listener.ts'

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
