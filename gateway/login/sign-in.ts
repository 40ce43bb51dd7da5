// Records a person whom a provider has authenticated, and issues the gateway's own token.
import { LoginFailed } from '../errors.ts'
import type { AccountClue, AccountProvider, ProvenPerson } from '../identity.ts'
import type { LoginEnd } from '../store/live-logins.ts'
import type { StoredPerson } from '../store/users.ts'
import { type AccessTokens, fitsToken } from '../tokens/access-token.ts'

export interface LoginContext {
  requestId: string
  ip: string
  userAgent?: string | undefined
}

/** The outcome of a login attempt, for the audit log and the metrics. `reason` is a stable word. */
export interface LoginOutcome extends LoginContext {
  provider: AccountProvider
  ok: boolean
  reason: string
  username: string
  userId: number | undefined
  /** For a directory login that failed: whose password was tried; undefined: no one's. */
  whose?: AccountClue | undefined
  /** The same was recorded before, so that the audit log does not need it. */
  isRepeated?: boolean
}

interface SignInParts {
  tokens: Pick<AccessTokens, 'issue'>
  /** Creates or updates the person and the link, and loads profiles and areas. Throws `GW_UNAVAILABLE` without a database. */
  syncPerson: (
    person: ProvenPerson,
    context: LoginContext
  ) => Promise<Pick<StoredPerson, 'user' | 'version' | 'disabled'>>
  /**
   * Lists the login among the person's sessions and in the audit log. Returns what has ended it meanwhile. Throws
   * `GW_UNAVAILABLE` if that cannot be stored.
   */
  beginSession: (token: string, person: ProvenPerson, accepted: LoginOutcome) => Promise<LoginEnd | undefined>
  onOutcome: (outcome: LoginOutcome) => void
}

export type SignIn = ReturnType<typeof createSignIn>
export type SignedIn = Awaited<ReturnType<SignIn>>

export const createSignIn =
  ({ tokens, syncPerson, beginSession, onOutcome }: SignInParts) =>
  async (person: ProvenPerson, context: LoginContext) => {
    const { user, version, disabled } = await syncPerson(person, context)
    const outcome = { ...context, provider: person.provider, username: user.username, userId: user.id }
    const refuse = (reason: string): never => {
      onOutcome({ ...outcome, ok: false, reason })
      throw new LoginFailed({ reason })
    }
    if (disabled) refuse('person-disabled')
    if (!fitsToken(user)) refuse('token-too-long')
    const token = await tokens.issue(user, version)
    const accepted = { ...outcome, ok: true, reason: 'ok' }
    const end = await beginSession(token, person, accepted)
    if (end !== undefined) refuse(end)
    onOutcome(accepted)
    return { token, user }
  }
