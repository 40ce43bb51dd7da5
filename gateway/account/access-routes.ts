// Shows people their current access, and where each part of it comes from.
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
    // The schema picks what is shown.
    run: async ({ actor }) => (await users.loadItem(actor.id)).item
  }
})
