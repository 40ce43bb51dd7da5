// Serves requests by the gateway's own server side on a free port, without the rest of a gateway.
import type { HttpRequest } from '../../gateway/http/server/request.ts'
import { createHttpServer } from '../../gateway/http/server/server.ts'
import { openListener } from '../../gateway/listener/listener.ts'

type Limits = NonNullable<Parameters<typeof createHttpServer>[0]['limits']>

/** @param onFault the text that answers what is no request */
export const startListener = async (
  t: { teardown(fn: () => unknown): unknown },
  onRequest: (request: HttpRequest) => void,
  { limits, onFault = () => '' }: { limits?: Limits; onFault?: (fault: string) => string } = {}
) => {
  const server = createHttpServer({
    ...(limits === undefined ? {} : { limits }),
    handler: { onRequest, onFault: (_, fault) => onFault(fault) }
  })
  const settings = { port: 0, host: '127.0.0.1', redirectPort: undefined, publicUrl: '', proxyProtocol: false }
  const listener = await openListener({
    server,
    settings,
    certificates: undefined,
    isTrusted: () => false,
    onRefused: () => undefined
  })
  t.teardown(() => listener.drain(0))
  return { port: listener.port, server, listener }
}
