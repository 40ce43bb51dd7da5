// Finds the routes of the path that a COPY or MOVE writes to, so that it is judged like the path of the request.
import type { Exchange } from '../http/exchange.ts'
import { forwardedPath, type Route, type RouteMatch, type RouteTable } from '../routes/route.ts'
import { originForm } from './match-route.ts'

const ELSEWHERE: RouteMatch = { refusal: 'bad-path', reason: 'destination', public: true }

/**
 * The Destination of a COPY or MOVE (RFC 4918 §9.8, §9.9, §10.3) must lead to routes of the same upstream which admit this
 * method and PUT. It is forwarded under the name and path by which the backend is asked.
 */
export const createMatchDestination =
  (current: () => RouteTable) =>
  (exchange: Exchange): undefined => {
    const { head, method, match, route } = exchange
    if (head.destination === undefined || (method !== 'COPY' && method !== 'MOVE')) return
    if (match?.route === undefined || route === undefined) return
    const target = pathAndQuery(exchange, head.destination)
    const path = target?.split('?', 1)[0] ?? ''
    const matches = [method, 'PUT'].map(each => (target === undefined ? ELSEWHERE : current().match(each, path)))
    const alsoWrites = matches.map(found =>
      found.route === undefined || isBeside(found.route, route) ? found : ELSEWHERE
    )
    exchange.match = { ...match, alsoWrites }
    const [written] = alsoWrites
    if (written?.route === undefined || target === undefined) return
    exchange.destination = forwardedPath(written.route, written.path) + target.slice(path.length)
  }

const isBeside = (one: Route, other: Route): boolean =>
  one.upstream === other.upstream && one.external === other.external

/** Of a Simple-ref (RFC 4918 §8.3) whose authority, if there is one, is that of the request. */
const pathAndQuery = ({ head, peerTrusted }: Exchange, reference: string): string | undefined => {
  if (/[^\x21-\x7e]|#/.test(reference)) return undefined
  if (reference.startsWith('/')) return reference
  return originForm(reference, head.host) ?? (peerTrusted ? originForm(reference, head.forwardedHost) : undefined)
}
