// Shows people their current access, and where each part of it comes from.
import { NotFound } from '../errors.ts'
import { type Endpoints, userProperties } from '../http/own-requests.ts'
import { accessSourceProperties } from '../store/people.ts'
import type { Users } from '../store/users.ts'
import { closed } from '../values/json-schema.ts'

const { profiles, areas, areaPrincipal, accessStatus } = userProperties
const accessSchema = closed({ profiles, areas, areaPrincipal, accessStatus, ...accessSourceProperties })

export const accessEndpoints = (users: Users): Endpoints => ({
  'GET /auth/account/access': {
    summary: 'Returns your current access, and where each part of it comes from',
    returns: accessSchema,
    async run({ actor }) {
      const found = await users.loadItem(actor.id)
      if (found === undefined) throw new NotFound({ reason: 'no-person' })
      // The schema picks what is shown.
      return found.item
    }
  }
})
