// Reads the requests of a connection as the gateway does: by its own connection, each head checked by match-route.
import { createMatchRoute } from '../../../gateway/access/match-route.ts'
import { createClientAddress, createRequestHost } from '../../../gateway/http/client-address.ts'
import { Exchange } from '../../../gateway/http/exchange.ts'
import type { HttpRequest } from '../../../gateway/http/request.ts'
import { canonicalPath } from '../../../gateway/routes/canonical-path.ts'
import type { Route, RouteMatch, RouteTable } from '../../../gateway/routes/route.ts'
import { type ReadMessages, readMessages } from '../../../test/support/message-reader.ts'
import { onThrown } from '../../../test/support/thrown.ts'

const ANY = { external: false } as Route
const requestHost = createRequestHost({ publicUrl: 'https://gw.example', allowedHosts: [] })
const clientAddress = createClientAddress([])
const hooks = { onClosed: () => undefined, onBodyFault: () => undefined, onThrown }

const match = (_method: string, rawPath: string): RouteMatch => {
  const { path, refusal } = canonicalPath(rawPath)
  return refusal === undefined ? { route: ANY, path } : { refusal: 'bad-path', reason: refusal, public: true }
}
const { matchPlain, matchUnusual } = createMatchRoute(
  () => ({ match, hosts: [] }) as unknown as RouteTable,
  requestHost
)

/** Whether the gateway answers with a refusal whatever its routes are. */
const isRefused = (request: HttpRequest): boolean => {
  const exchange = new Exchange(request, clientAddress, hooks)
  // Whose it is matters to nobody here; the reader hears of its end itself.
  request.owner = undefined
  matchPlain(exchange)
  return matchUnusual(exchange) !== undefined
}

export const readByGateway = (pieces: readonly Buffer[]): ReadMessages => readMessages(pieces, isRefused)
