// Shows people their current access, and where each part of it comes from.
import type { FastifyInstance } from 'fastify'
import { NotFound } from '../errors.ts'
import { identityOf } from '../http/exchange.ts'
import { userProperties } from '../http/own-requests.ts'
import { accessSourceProperties } from '../store/people.ts'
import type { Users } from '../store/users.ts'
import { closed } from '../values/json-schema.ts'

interface AccessRoutesParts {
  users: Pick<Users, 'loadItem'>
}

const { profiles, areas, areaPrincipal, accessStatus } = userProperties
const accessSchema = closed({ profiles, areas, areaPrincipal, accessStatus, ...accessSourceProperties })

export const accessRoutes = (app: FastifyInstance, { users }: AccessRoutesParts): void => {
  app.get(
    '/auth/account/access',
    {
      schema: {
        summary: 'Returns your current access, and where each part of it comes from',
        response: { 200: accessSchema }
      }
    },
    async ({ exchange }) => {
      const found = await users.loadItem(identityOf(exchange).user.id)
      if (found === undefined) throw new NotFound({ reason: 'no-person' })
      // The schema picks what is shown.
      return found.item
    }
  )
}
