// Admins see which route asks for which role, and why a request would be decided as it is.
import type { FastifyInstance } from 'fastify'
import { PROFILES, type User } from '../identity.ts'
import { decide } from '../routes/decide.ts'
import type { Route, RouteTable } from '../routes/route.ts'
import { type PagingQuery, pageOf, paging, pagingProperties } from './admin-schemas.ts'

export interface RouteRoutesParts {
  routes: () => RouteTable
  cloudUnassignedMayPass: boolean
}

const routeItemSchema = {
  type: 'object',
  required: ['id', 'path', 'methods', 'upstream', 'public', 'roles', 'requireAssigned', 'kind', 'place', 'allowed'],
  properties: {
    id: { type: 'string' },
    path: { type: 'string' },
    methods: { type: 'array', items: { type: 'string' }, description: 'Empty: all' },
    upstream: { type: 'string', description: "'' for the gateway's own" },
    public: { type: 'boolean' },
    roles: { type: 'array', items: { type: 'string' }, description: 'Empty: any valid token' },
    requireAssigned: { type: 'boolean' },
    kind: { type: 'string', enum: ['http', 'websocket', 'socketio'] },
    place: { type: 'string', description: 'file:line:column' },
    allowed: {
      type: 'object',
      description: 'Whether somebody assigned, with this one profile, may pass',
      additionalProperties: { type: 'boolean' }
    }
  }
} as const

const kindOf = (route: Route) =>
  route.socketio !== undefined ? 'socketio' : route.websocket !== undefined ? 'websocket' : 'http'

const roles = ['anonymous', ...PROFILES]

const userWith = (profile: string): Pick<User, 'profiles' | 'accessStatus' | 'provider'> | undefined =>
  profile === 'anonymous' ? undefined : { profiles: [profile], accessStatus: 'assigned', provider: 'ldap' }

const matrixRow = (route: Route, cloudUnassignedMayPass: boolean) => ({
  id: route.id,
  path: route.path,
  methods: [...(route.methods ?? [])],
  upstream: route.upstream?.name ?? '',
  public: route.public,
  roles: [...(route.roles ?? [])],
  requireAssigned: route.requireAssigned,
  kind: kindOf(route),
  place: `${route.place.file}:${route.place.line}:${route.place.column}`,
  allowed: Object.fromEntries(
    roles.map(role => [
      role,
      decide({ route, path: route.path }, { user: userWith(role) }, { cloudUnassignedMayPass }).decision === 'allow'
    ])
  )
})

export const routeRoutes = (app: FastifyInstance, { routes, cloudUnassignedMayPass }: RouteRoutesParts): void => {
  app.get<{ Querystring: PagingQuery }>(
    '/auth/admin/routes',
    {
      schema: {
        summary: 'The access matrix: every route and who may pass',
        querystring: { type: 'object', additionalProperties: false, properties: pagingProperties },
        response: { 200: pageOf(routeItemSchema) }
      }
    },
    async ({ query }) => {
      const { page, pageSize } = paging(query)
      const all = routes().routes
      const items = all
        .slice((page - 1) * pageSize, page * pageSize)
        .map(route => matrixRow(route, cloudUnassignedMayPass))
      return { items, page, pageSize, total: all.length }
    }
  )
}
