// Reads the requests of a connection as the gateway does: by its own connection, each head judged by match-route.
import { createMatchRoute } from '../../../gateway/access/match-route.ts'
import type { Exchange } from '../../../gateway/http/exchange.ts'
import type { HttpRequest } from '../../../gateway/http/server/request.ts'
import { canonicalPath } from '../../../gateway/routes/canonical-path.ts'
import type { Route, RouteMatch, RouteTable } from '../../../gateway/routes/route.ts'
import { type ReadMessages, readMessages } from '../../support/message-reader.ts'

const ANY = {} as Route

const match = (_method: string, rawPath: string): RouteMatch => {
  const { path, refusal } = canonicalPath(rawPath)
  return refusal === undefined ? { route: ANY, path } : { refusal: 'bad-path', reason: refusal }
}
const judge = createMatchRoute(() => ({ match }) as unknown as RouteTable)

/** Whether the gateway answers with a refusal whatever its routes are. */
const isRefused = ({ method, target, versionMajor, versionMinor, head }: HttpRequest): boolean => {
  const req = { method, url: target, httpVersionMajor: versionMajor, httpVersionMinor: versionMinor, headers: {} }
  const exchange = { req, head, refusal: undefined } as unknown as Exchange
  judge(exchange)
  return exchange.refusal !== undefined
}

export const readByGateway = (pieces: readonly Buffer[]): ReadMessages => readMessages(pieces, isRefused)
