// Shows Admins which roles each route requires, and explains the decision on a request.
import { BadRequest } from '../errors.ts'
import { distinguishedBy, type MatrixRow, matrixRows } from '../explain/access-matrix.ts'
import { readAsker } from '../explain/askers.ts'
import { countedHost, explain, explanationJson } from '../explain/explain.ts'
import { type Endpoints, pageFrom } from '../http/own-requests.ts'
import { formatLocation } from '../route-files/complaint.ts'
import { readTarget } from '../route-files/test-lines.ts'
import type { DecideOptions } from '../routes/decide.ts'
import { isFromFiles, type Route, type RouteTable } from '../routes/route.ts'
import { formatNetwork } from '../values/addresses.ts'
import { oncePer } from '../values/bounded-map.ts'
import { inTurns, type Parts } from '../values/in-parts.ts'
import { array, boolean, closed, object, string } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'

const routeItemSchema = object({
  id: { ...string, description: 'A Socket.IO route has one item for each namespace: `… namespace /chat`' },
  path: string,
  methods: { ...array(string), description: 'Empty: all methods' },
  upstream: { ...string, description: "'' for the gateway's own endpoints" },
  public: boolean,
  roles: { ...array(string), description: 'Empty: any valid token' },
  requireAssigned: boolean,
  host: { ...array(string), description: 'Hosts on which the route applies. Empty: all that no route names' },
  from: { ...array(string), description: 'Networks from which clients may come. Empty: any' },
  kind: { type: 'string', enum: ['http', 'websocket', 'socketio'] },
  app: { ...string, description: "Name of the application on /auth/apps; '' if it is not listed" },
  place: { ...string, description: 'file:line:column' },
  allowed: {
    type: 'object',
    description:
      'Whether anonymous, cloud-unassigned, unassigned, or an assigned person of this one profile may pass; and `PROFILE without area`, where a route of the files needs an area',
    additionalProperties: boolean
  }
})

const kindOf = (route: Route) =>
  route.socketio !== undefined ? 'socketio' : route.websocket !== undefined ? 'websocket' : 'http'

export type RouteItem = ReturnType<typeof itemOf>

const itemOf = ({ id, route, roles, allowed }: MatrixRow) => ({
  id,
  path: route.path,
  methods: [...(route.methods ?? [])],
  upstream: route.upstream?.name ?? '',
  public: route.public,
  roles: [...(roles ?? [])],
  requireAssigned: route.requireAssigned,
  host: [...(route.host ?? [])],
  from: (route.from ?? []).map(formatNetwork),
  kind: kindOf(route),
  app: route.app?.name ?? '',
  place: formatLocation(route.place),
  allowed
})

function* itemsOf({ routes, profiles }: RouteTable, options: DecideOptions): Parts<RouteItem[]> {
  const askers = yield* distinguishedBy(routes.filter(isFromFiles), options, profiles)
  const items: RouteItem[] = []
  for (const route of routes) {
    for (const row of matrixRows(route, options, askers)) items.push(itemOf(row))
    yield
  }
  return items
}

const explainQuerySchema = closed(
  {
    method: { type: 'string', pattern: '^[A-Z][A-Z0-9-]{0,31}$' },
    path: {
      type: 'string',
      pattern: '^(?:/|https?://[^/]+/)',
      maxLength: 8192,
      description: 'As a client would send it, or https://HOST/PATH for a host that routes name'
    },
    as: {
      type: 'string',
      maxLength: 200,
      default: 'anonymous',
      description:
        'Profiles of a person, joined by commas, or anonymous, unassigned or cloud-unassigned; with ` from 10.1.2.3`, a client with this address'
    }
  },
  ['as']
)

const explanationSchema = object(
  {
    method: string,
    host: { ...string, description: 'Absent if none was asked for' },
    target: string,
    path: { ...string, description: "After canonicalisation; '' when the path is refused" },
    as: string,
    decision: { type: ['string', 'integer'], description: 'allow, or the status of the refusal' },
    code: { ...string, description: "'' when allowed" },
    reason: string,
    words: string,
    route: { ...string, description: "'' if there is none" },
    place: { ...string, description: 'file:line:column' },
    upstream: { ...string, description: "'' unless the request would be forwarded" },
    forwarded: { ...string, description: 'The path as forwarded to the upstream' },
    candidates: array(object({ id: string, place: string, chosen: boolean, why: string })),
    everybody: {
      type: 'object',
      description: 'The decision on the same request for everyone else',
      additionalProperties: string
    }
  },
  ['host', 'upstream', 'forwarded', 'everybody']
)

export const matrixEndpoints = ({ routes, cloudUnassignedMayPass, requestHost }: AdminParts): Endpoints => {
  const options = { cloudUnassignedMayPass }
  /** Of a table, once: the console asks for page after page, and thousands of routes take a while. */
  const matrix = oncePer((table: RouteTable) => inTurns(itemsOf(table, options)))
  return {
    'GET /auth/admin/routes': {
      summary: 'Returns the access matrix: every route and who may pass it',
      lists: routeItemSchema,
      run: async ({ paging }) => pageFrom(await matrix(routes()), paging)
    },
    'GET /auth/admin/explain': {
      summary: 'Explains which route a request matches, why, and the response that its client would get',
      query: explainQuerySchema,
      returns: explanationSchema,
      run({ query: { method = '', path = '', as = '' } }) {
        const { asker, complaint } = readAsker(as, routes())
        if (complaint !== undefined)
          throw new BadRequest({ message: 'querystring/as is not a known profile or kind of person', reason: 'who' })
        const asked = readTarget(path)
        if (asked === undefined)
          throw new BadRequest({ message: 'querystring/path names a host that requests cannot have', reason: 'host' })
        const countsAs = countedHost(path, requestHost, routes())
        return explanationJson(explain(routes(), { method, ...asked, countsAs, asker }, options))
      }
    }
  }
}
