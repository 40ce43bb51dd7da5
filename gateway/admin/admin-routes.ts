// Serves the admin API. The route table admits only Admins, before anything here runs.
import type { FastifyInstance } from 'fastify'
import { type AreaRoutesParts, areaRoutes } from './area-routes.ts'
import { type AuditRoutesParts, auditRoutes } from './audit-routes.ts'
import { type ClientRoutesParts, clientRoutes } from './client-routes.ts'
import { type GrantRoutesParts, grantRoutes } from './grant-routes.ts'
import { type HeldBackRoutesParts, heldBackRoutes } from './held-back-routes.ts'
import { type PeopleRoutesParts, peopleRoutes } from './people-routes.ts'
import { type RouteRoutesParts, routeRoutes } from './route-routes.ts'
import { type SessionAdminParts, sessionAdminRoutes } from './session-routes.ts'
import { type StatusRoutesParts, statusRoutes } from './status-routes.ts'
import { type SocketRoutesParts, socketRoutes } from './stream-routes.ts'
import { type TokenAdminParts, tokenAdminRoutes } from './token-routes.ts'

export type AdminParts = PeopleRoutesParts &
  HeldBackRoutesParts &
  GrantRoutesParts &
  AreaRoutesParts &
  AuditRoutesParts &
  RouteRoutesParts &
  ClientRoutesParts &
  SessionAdminParts &
  TokenAdminParts &
  SocketRoutesParts &
  StatusRoutesParts

export const adminRoutes = (app: FastifyInstance, parts: AdminParts): void => {
  peopleRoutes(app, parts)
  heldBackRoutes(app, parts)
  grantRoutes(app, parts)
  sessionAdminRoutes(app, parts)
  tokenAdminRoutes(app, parts)
  clientRoutes(app, parts)
  areaRoutes(app, parts)
  auditRoutes(app, parts)
  routeRoutes(app, parts)
  socketRoutes(app, parts)
  statusRoutes(app, parts)
  app.get(
    '/auth/admin/openapi.json',
    {
      schema: {
        summary: 'Describes this API as an OpenAPI document',
        response: { 200: { type: 'object', additionalProperties: true } }
      }
    },
    async () => app.swagger()
  )
}
