// Serves the admin API. The route table admits only Admins, before anything here runs.
import type { FastifyInstance } from 'fastify'
import { addEndpoints, type Endpoints, refuseOtherMethods } from '../http/own-requests.ts'
import type { AdminParts } from './admin-parts.ts'
import { areaEndpoints } from './area-routes.ts'
import { auditEndpoints } from './audit-routes.ts'
import { clientEndpoints } from './client-routes.ts'
import { heldBackEndpoints } from './held-back-routes.ts'
import { matrixEndpoints } from './matrix-routes.ts'
import { peopleEndpoints } from './people-routes.ts'
import { statusEndpoints } from './status-routes.ts'
import { streamEndpoints } from './stream-routes.ts'

export const adminRoutes = (app: FastifyInstance, parts: AdminParts): void => {
  const endpoints: Endpoints = {
    ...peopleEndpoints(parts),
    ...heldBackEndpoints(parts),
    ...clientEndpoints(parts),
    ...areaEndpoints(parts),
    ...auditEndpoints(parts),
    ...matrixEndpoints(parts),
    ...streamEndpoints(parts),
    ...statusEndpoints(parts),
    'GET /auth/admin/openapi.json': {
      summary: 'Describes this API as an OpenAPI document',
      returns: { type: 'object', additionalProperties: true },
      run: () => app.swagger()
    }
  }
  addEndpoints(app, endpoints)
  refuseOtherMethods(app, endpoints)
}
