// Finds the routes of the path that a COPY or MOVE writes to, so that it is checked like the path of the request.
import type { Exchange } from '../http/exchange.ts'
import { readLaxly } from '../http/fields.ts'
import { connectionNames, fieldValue } from '../http/request.ts'
import { ELSEWHERE, matchBeside } from '../routes/match-beside.ts'
import { forwardedPath, type RouteTable } from '../routes/route.ts'
import { hostSaid, originForm } from './match-route.ts'

/**
 * The Destination of a COPY or MOVE (RFC 4918 §9.8, §9.9, §10.3) must lead to routes of the same upstream which admit this
 * method and PUT, and also DELETE where what is there may be overwritten (§9.8.4, §9.9.3). MOVE deletes its source, which is
 * checked even if there is no Destination. The Destination is forwarded under the name and path by which the backend is asked.
 */
export const createMatchDestination =
  (current: () => RouteTable) =>
  (exchange: Exchange): undefined => {
    const { head, method } = exchange
    if (method !== 'COPY' && method !== 'MOVE') return
    const { match, route, hostName } = exchange
    if (match?.route === undefined || route === undefined) return
    const target = pathAndQuery(exchange, head.destination ?? '')
    const path = target?.split('?', 1)[0] ?? ''
    const find = (each: string, at: string) => matchBeside(current(), route, each, at, hostName)
    const there = methodsThere(exchange).map(each => (target === undefined ? ELSEWHERE : find(each, path)))
    const alsoWrites = method === 'MOVE' ? [...there, find('DELETE', match.path)] : there
    exchange.match = { ...match, alsoWrites }
    const [first] = there
    if (first?.route === undefined || target === undefined) return
    exchange.destination = forwardedPath(first.route, first.path) + target.slice(path.length)
  }

/** What must be allowed at the Destination. */
const methodsThere = (exchange: Exchange): string[] => {
  if (exchange.head.destination === undefined) return []
  return mayOverwrite(exchange) ? [exchange.method, 'PUT', 'DELETE'] : [exchange.method, 'PUT']
}

/** Unless the client says otherwise to the backend, in exactly the way that every server understands (RFC 4918 §10.6). */
const mayOverwrite = ({ request, head, route }: Exchange): boolean => {
  const { set = [], remove = [] } = route?.upstream?.requestHeaders ?? {}
  const isLost =
    connectionNames(head.connection)?.has('overwrite') === true ||
    [...set.map(([name]) => name), ...remove].some(name => readLaxly(name) === 'overwrite')
  return isLost || fieldValue(request.fields, 'overwrite') !== 'F'
}

/** Of a Simple-ref (RFC 4918 §8.3) whose authority, if there is one, is that of the request. */
const pathAndQuery = (exchange: Exchange, reference: string): string | undefined => {
  if (/[^\x21-\x7e]|#/.test(reference)) return undefined
  if (reference.startsWith('/')) return reference
  const said = hostSaid(exchange)
  return originForm(reference, exchange.head.host) ?? originForm(reference, said === '' ? exchange.host : said)
}
