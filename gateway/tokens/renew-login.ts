// Issues another token for a login that goes on: with the current access of its person, and a later end if SESSION_MAX allows it.
import { Forbidden, TokenRevoked, Unauthenticated } from '../errors.ts'
import type { Identity, LiveLogin, User } from '../identity.ts'
import { type AccessTokens, fitsToken } from './access-token.ts'

interface RenewParts {
  tokens: Pick<AccessTokens, 'reissue' | 'verify'>
  /** The person as the database knows them now; undefined: unknown. Throws `GW_UNAVAILABLE` without a database. */
  loadPerson: (id: number) => Promise<PersonNow | undefined>
  /** False if the login has been ended. */
  prolongLogin: (login: LiveLogin, expiresAt: number) => Promise<boolean>
}

interface PersonNow {
  readonly user: User
  readonly version: number
  readonly lowestAcceptedVersion: number
  readonly disabled: boolean
}

export interface Renewed {
  readonly token: string
  readonly identity: Identity
}

export type RenewLogin = (login: LiveLogin) => Promise<Renewed>

/**
 * Rejects with 403 for other tokens than those of logins, with 401 if the person or the login has ended, and with
 * `GW_TOKEN_EXPIRED` after the end of the session.
 */
export const createRenewLogin =
  ({ tokens, loadPerson, prolongLogin }: RenewParts): RenewLogin =>
  async login => {
    // The new token would have all profiles of the owner, and would be valid from anywhere.
    if (login.kind !== 'login') throw new Forbidden({ reason: 'token-kind' })
    const person = await loadPerson(login.user.id)
    // The id alone is no proof: a restored database may have assigned it to someone else.
    const same = person?.user.provider === login.user.provider && person.user.username === login.user.username
    if (person === undefined || !same) throw new Unauthenticated({ reason: 'person-unknown' })
    if (person.disabled || login.version < person.lowestAcceptedVersion)
      throw new TokenRevoked({ reason: 'person-revoked' })
    if (!fitsToken(person.user, { host: login.host })) throw new Unauthenticated({ reason: 'token-too-long' })
    const token = await tokens.reissue(person.user, person.version, login)
    const identity = tokens.verify(token)
    if (identity.expiresAt > login.expiresAt && !(await prolongLogin(login, identity.expiresAt)))
      throw new TokenRevoked({ reason: 'revoked' })
    return { token, identity }
  }
