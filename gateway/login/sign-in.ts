// Somebody whom a provider vouches for is recorded as a person and given the gateway's own token.
import { LoginFailed } from '../errors.ts'
import type { AccountProvider, Provider, User } from '../identity.ts'
import type { AccessTokens } from '../tokens/access-token.ts'

/** Who a provider says has logged in. `subject` is stable for one person at one issuer; an e-mail never is. */
export interface ProvenPerson {
  provider: Provider
  issuer: string
  subject: string
  name: string
  email: string
  username: string
  /** Names of the groups that the provider put this person in: DNs from a directory. undefined: not known. */
  groups?: readonly string[] | undefined
  /** `tid` of an ID token. */
  tenant?: string | undefined
  /** The provider left groups out of its list: nothing is granted. */
  groupsCutOff?: boolean | undefined
  /** Every login that leads to this account of the directory. */
  names?: readonly string[] | undefined
  /** When the directory made the entry. */
  entryCreatedAt?: Date | undefined
  /** What the directory's filter was filled with. */
  login?: string | undefined
}

export interface LoginContext {
  requestId: string
  ip: string
  userAgent?: string | undefined
}

/** What became of a login attempt, for the audit log and the metrics. `reason` is a stable word. */
export interface LoginOutcome extends LoginContext {
  provider: AccountProvider
  ok: boolean
  reason: string
  username: string
  userId: number | undefined
}

interface SyncedPerson {
  user: User
  version: number
  disabled: boolean
}

interface SignInParts {
  tokens: Pick<AccessTokens, 'issue'>
  /** Creates or updates the person and the link, and loads profiles and areas. Throws `GW_UNAVAILABLE` when the database is away. */
  syncPerson: (person: ProvenPerson, context: LoginContext) => Promise<SyncedPerson>
  /** The login is listed among the person's sessions from now on; never throws. */
  beginSession: (token: string, context: LoginContext) => Promise<void>
  onOutcome: (outcome: LoginOutcome) => void
}

export interface SignedIn {
  token: string
  user: User
}

export type SignIn = (person: ProvenPerson, context: LoginContext) => Promise<SignedIn>

export const createSignIn =
  ({ tokens, syncPerson, beginSession, onOutcome }: SignInParts): SignIn =>
  async (person, context) => {
    const { user, version, disabled } = await syncPerson(person, context)
    const outcome = { ...context, provider: person.provider, username: user.username, userId: user.id }
    if (disabled) {
      onOutcome({ ...outcome, ok: false, reason: 'person-disabled' })
      throw new LoginFailed({ reason: 'person-disabled' })
    }
    const token = await tokens.issue(user, version)
    await beginSession(token, context)
    onOutcome({ ...outcome, ok: true, reason: 'ok' })
    return { token, user }
  }
