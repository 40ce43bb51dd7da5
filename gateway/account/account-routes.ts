// Serves people what is theirs: their access, their sessions and their access tokens.
import { Unauthenticated } from '../errors.ts'
import { identityOf } from '../http/exchange.ts'
import type { Asked, Endpoints } from '../http/own-requests.ts'
import { isLoginOf } from '../identity.ts'
import type { LiveLogins } from '../store/live-logins.ts'
import type { PersonalTokenStore } from '../store/personal-tokens.ts'
import type { Users } from '../store/users.ts'
import { accessEndpoints } from './access-routes.ts'
import { personalTokenEndpoints } from './personal-token-routes.ts'
import { sessionEndpoints } from './session-routes.ts'

interface AccountParts {
  readonly users: Users
  readonly liveLogins: LiveLogins
  readonly personalTokens: PersonalTokenStore
}

export const accountEndpoints = ({ users, liveLogins, personalTokens }: AccountParts): Endpoints => {
  const endpoints: Endpoints = {
    ...accessEndpoints(users),
    ...sessionEndpoints(liveLogins),
    ...personalTokenEndpoints(personalTokens)
  }
  const refuseOthers = async ({ exchange }: Asked): Promise<void> => {
    const login = identityOf(exchange)
    const person = await users.loadPerson(login.user.id)
    if (person !== undefined && !isLoginOf(login, person)) throw new Unauthenticated({ reason: 'person-unknown' })
  }
  const guarded = Object.entries(endpoints).map(([name, endpoint]) => {
    const run = async (asked: Asked) => {
      await refuseOthers(asked)
      return endpoint.run(asked)
    }
    return [name, { ...endpoint, run }]
  })
  return Object.fromEntries(guarded)
}
