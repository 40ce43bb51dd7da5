// Finds whom a token on the command line identifies, and whether the gateway would accept it.

import { GatewayError } from '../errors.ts'
import type { NamedAsker } from '../explain/askers.ts'
import { createPersonalTokens, isPersonalToken } from '../tokens/personal-tokens.ts'
import { createRevocations } from '../tokens/revocations.ts'
import { readRecord } from '../values/records.ts'
import { CannotRun, type Cli } from './command.ts'
import { accessTokenConfirmMs, verifyingSecrets } from './command-settings.ts'
import type { Database } from './open-store.ts'
import { readAll } from './read-input.ts'

export interface TokenAsker {
  readonly asker: NamedAsker
  readonly fault: { readonly code: string; readonly reason: string } | undefined
  /** What could not be checked. */
  readonly note: string | undefined
}

const NOT_KNOWN = 'Only the running gateway knows whether the token has been revoked or is stale.'
const NOT_VERIFIED = `JWT_SECRET is not set: the signature of the token was not verified, and its claims are taken as they are. ${NOT_KNOWN}`

/** Verifies with JWT_SECRET and JWT_PREVIOUS_SECRETS if they are set; `-` reads the token from standard input. */
export const askerOfToken = async (cli: Cli, given: string): Promise<TokenAsker> => {
  const text = given === '-' ? await readAll(cli) : given
  const token = text.trim().replace(/^bearer\s+/i, '')
  if (token === '') throw new CannotRun('The token is empty')
  if (isPersonalToken(token)) return askerOfPersonalToken(cli, token)
  const [secret, ...previousSecrets] = verifyingSecrets(cli.environment)
  if (secret === undefined) return takenAtItsWord(token)
  const { createAccessTokens } = await import('../tokens/access-token.ts')
  const tokens = createAccessTokens({ secret, previousSecrets, expiresInMs: 365 * 86_400_000 })
  try {
    const { user } = tokens.verify(token)
    return { asker: { name: nameOf(user.username, user.profiles), user }, fault: undefined, note: NOT_KNOWN }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return refusedAsker(error)
  }
}

const refusedAsker = ({ code, reason = '' }: GatewayError): TokenAsker => ({
  asker: { name: 'the sender of this token' },
  fault: { code, reason },
  note: undefined
})

/** Looked up as the gateway does, in the database that the environment names. */
const askerOfPersonalToken = async ({ environment }: Cli, token: string): Promise<TokenAsker> => {
  const { hasDatabase, withDatabase } = await import('./open-store.ts')
  if (!hasDatabase(environment))
    throw new CannotRun('Access tokens (pt_…) cannot be checked without the database: set DATABASE_URL')
  const { readLiveTokens } = await import('../store/personal-tokens.ts')
  const tokens = createPersonalTokens({
    revocations: createRevocations(),
    confirmMs: accessTokenConfirmMs(environment)
  })
  const learn = (database: Database) => readLiveTokens(database, undefined, news => tokens.learn(news))
  await withDatabase(environment, learn, { migrates: false })
  const identity = tokens.check(token)
  if (identity instanceof GatewayError) return refusedAsker(identity)
  const { user, kind } = identity
  return { asker: { name: nameOf(user.username, user.profiles), user, kind }, fault: undefined, note: undefined }
}

const nameOf = (username: string, profiles: readonly string[]): string =>
  `${username === '' ? 'someone' : username} (${profiles.length === 0 ? 'no profile' : profiles.join(', ')})`

const takenAtItsWord = (token: string): TokenAsker => {
  const claims = claimsOf(token)
  const profiles = claims.profiles
  const isClaims = Array.isArray(profiles) && profiles.every(profile => typeof profile === 'string')
  if (!isClaims) throw new CannotRun('This is not a token of a gateway')
  const provider = claims.provider === 'cloudidp' || claims.provider === 'client' ? claims.provider : 'ldap'
  const accessStatus = claims.accessStatus === 'assigned' ? 'assigned' : 'unassigned'
  const username = typeof claims.username === 'string' ? claims.username : ''
  const kind = provider === 'client' ? 'client' : 'login'
  const asker: NamedAsker = { name: nameOf(username, profiles), user: { profiles, accessStatus, provider }, kind }
  const isExpired = typeof claims.exp !== 'number' || claims.exp * 1000 <= Date.now()
  const fault = isExpired ? { code: 'GW_TOKEN_EXPIRED', reason: 'expired' } : undefined
  return { asker: fault === undefined ? asker : { name: asker.name }, fault, note: NOT_VERIFIED }
}

const claimsOf = (token: string): Readonly<Record<string, unknown>> =>
  readRecord(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) ?? {}
