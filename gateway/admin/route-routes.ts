// Shows Admins which roles each route requires, and explains the decision on a request.
import type { FastifyInstance } from 'fastify'
import { BadRequest } from '../errors.ts'
import { accessMatrix } from '../explain/access-matrix.ts'
import { askersWith, readAsker } from '../explain/askers.ts'
import { explain, explanationJson } from '../explain/explain.ts'
import { listSchema, type PagingQuery, paging } from '../http/own-requests.ts'
import type { DecideOptions } from '../routes/decide.ts'
import type { Route, RouteTable } from '../routes/route.ts'

export interface RouteRoutesParts {
  routes: () => RouteTable
  cloudUnassignedMayPass: boolean
}

const routeItemSchema = {
  type: 'object',
  required: ['id', 'path', 'methods', 'upstream', 'public', 'roles', 'requireAssigned', 'kind', 'place', 'allowed'],
  properties: {
    id: { type: 'string', description: 'A Socket.IO route has one item for each namespace: `… namespace /chat`' },
    path: { type: 'string' },
    methods: { type: 'array', items: { type: 'string' }, description: 'Empty: all methods' },
    upstream: { type: 'string', description: "'' for the gateway's own endpoints" },
    public: { type: 'boolean' },
    roles: { type: 'array', items: { type: 'string' }, description: 'Empty: any valid token' },
    requireAssigned: { type: 'boolean' },
    kind: { type: 'string', enum: ['http', 'websocket', 'socketio'] },
    place: { type: 'string', description: 'file:line:column' },
    allowed: {
      type: 'object',
      description:
        'Whether anonymous, cloud-unassigned, unassigned, or an assigned person of this one profile may pass',
      additionalProperties: { type: 'boolean' }
    }
  }
} as const

const kindOf = (route: Route) =>
  route.socketio !== undefined ? 'socketio' : route.websocket !== undefined ? 'websocket' : 'http'

const itemsOf = (table: RouteTable, options: DecideOptions) =>
  accessMatrix(table.routes, options, askersWith(table.profiles)).map(({ id, route, roles, allowed }) => ({
    id,
    path: route.path,
    methods: [...(route.methods ?? [])],
    upstream: route.upstream?.name ?? '',
    public: route.public,
    roles: [...(roles ?? [])],
    requireAssigned: route.requireAssigned,
    kind: kindOf(route),
    place: `${route.place.file}:${route.place.line}:${route.place.column}`,
    allowed
  }))

const explainQuerySchema = {
  type: 'object',
  additionalProperties: false,
  required: ['method', 'path'],
  properties: {
    method: { type: 'string', pattern: '^[A-Z][A-Z0-9-]{0,31}$' },
    path: { type: 'string', pattern: '^/', maxLength: 8192, description: 'As a client would send it' },
    as: {
      type: 'string',
      maxLength: 200,
      default: 'anonymous',
      description: 'Profiles of a person, joined by commas, or anonymous, unassigned or cloud-unassigned'
    }
  }
} as const

const text = { type: 'string' } as const

const explanationSchema = {
  type: 'object',
  required: ['method', 'target', 'path', 'as', 'decision', 'code', 'reason', 'words', 'route', 'place', 'candidates'],
  properties: {
    method: text,
    target: text,
    path: { ...text, description: "After canonicalisation; '' when the path is refused" },
    as: text,
    decision: { type: ['string', 'integer'], description: 'allow, or the status of the refusal' },
    code: { ...text, description: "'' when allowed" },
    reason: text,
    words: text,
    route: { ...text, description: "'' if there is none" },
    place: { ...text, description: 'file:line:column' },
    upstream: { ...text, description: "'' unless the request would be forwarded" },
    forwarded: { ...text, description: 'The path as forwarded to the upstream' },
    candidates: {
      type: 'array',
      items: {
        type: 'object',
        required: ['id', 'place', 'chosen', 'why'],
        properties: { id: text, place: text, chosen: { type: 'boolean' }, why: text }
      }
    },
    everybody: {
      type: 'object',
      description: 'The decision on the same request for everyone else',
      additionalProperties: text
    }
  }
} as const

export const routeRoutes = (app: FastifyInstance, { routes, cloudUnassignedMayPass }: RouteRoutesParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/routes',
    { schema: listSchema('Returns the access matrix: every route and who may pass it', routeItemSchema) },
    async ({ query }) => {
      const { page, pageSize } = paging(query)
      const all = itemsOf(routes(), { cloudUnassignedMayPass })
      return { items: all.slice((page - 1) * pageSize, page * pageSize), page, pageSize, total: all.length }
    }
  )

  app.get<{ Querystring: { method: string; path: string; as: string } }>(
    '/auth/admin/explain',
    {
      schema: {
        summary: 'Explains which route a request matches, why, and the response that its client would get',
        querystring: explainQuerySchema,
        response: { 200: explanationSchema }
      }
    },
    async ({ query }) => {
      const { asker, complaint } = readAsker(query.as, routes())
      if (complaint !== undefined)
        throw new BadRequest({ message: 'querystring/as is not a known profile or kind of person', reason: 'who' })
      const question = { method: query.method, target: query.path, asker }
      return explanationJson(explain(routes(), question, { cloudUnassignedMayPass }))
    }
  )
}
