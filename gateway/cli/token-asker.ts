// Finds whom a token on the command line identifies, and whether the gateway would accept it.

import { GatewayError, Unauthenticated } from '../errors.ts'
import type { NamedAsker } from '../explain/askers.ts'
import type { Identity } from '../identity.ts'
import type { Database } from '../store/database.ts'
import { createPersonalTokens, isPersonalToken } from '../tokens/personal-tokens.ts'
import { createRevocations } from '../tokens/revocations.ts'
import { formatAddress, mayComeFrom, parseAddress } from '../values/addresses.ts'
import { readRecord } from '../values/records.ts'
import { CannotRun, type Cli } from './command.ts'
import { accessTokenConfirmMs, verifyingSecrets } from './command-settings.ts'
import { readAll } from './read-input.ts'

export interface TokenAsker {
  readonly asker: NamedAsker
  readonly fault: { readonly code: string; readonly reason: string } | undefined
  /** What could not be checked. */
  readonly note: string | undefined
}

const NOT_KNOWN = 'Only the running gateway knows whether the token has been revoked or is stale.'
const NOT_VERIFIED = `JWT_SECRET is not set: the signature of the token was not verified, and its claims are taken as they are. ${NOT_KNOWN}`

/** What the token itself says about where it may be used. */
type Found = TokenAsker & Partial<Pick<Identity, 'addresses' | 'host'>>

/** A token, or `-` for one on standard input, with the client's address after ` from ` if there is one. */
export const askerOfToken = async (cli: Cli, given: string): Promise<TokenAsker> => {
  const [, written = '', from] = /^(.*?)(?:\s+from\s+(\S+))?$/s.exec(given) ?? []
  const number = from === undefined ? undefined : parseAddress(from)
  if (from !== undefined && number === undefined) throw new CannotRun(`"${from}" is no IP address`)
  const text = written === '-' ? await readAll(cli) : written
  const token = text.trim().replace(/^bearer\s+/i, '')
  if (token === '') throw new CannotRun('The token is empty')
  const address = number === undefined ? undefined : formatAddress(number)
  const { asker, fault, note } = sentFrom(address, await ownerOf(cli, token))
  return { asker: { ...asker, address }, fault, note }
}

/** Refuses what the gateway refuses because of where the token is from. */
const sentFrom = (address: string | undefined, found: Found): TokenAsker => {
  const { fault, note, addresses = [], host } = found
  if (fault !== undefined) return found
  if (host !== undefined) return refusedAsker(new Unauthenticated({ reason: 'foreign-host' }))
  if (addresses.length === 0) return found
  if (address !== undefined)
    return mayComeFrom(addresses, address) ? found : refusedAsker(new Unauthenticated({ reason: 'foreign-address' }))
  const only = `It is accepted from ${addresses.join(', ')} only: write "from 10.1.2.3" after it to name an address.`
  return { ...found, note: `${note} ${only}` }
}

/** Verifies with JWT_SECRET and JWT_PREVIOUS_SECRETS if they are set. */
const ownerOf = async (cli: Cli, token: string): Promise<Found> => {
  if (isPersonalToken(token)) return askerOfPersonalToken(cli, token)
  const [secret, ...previousSecrets] = verifyingSecrets(cli.environment)
  if (secret === undefined) return takenAtItsWord(token)
  const { createAccessTokens } = await import('../tokens/access-token.ts')
  const tokens = createAccessTokens({ secret, previousSecrets, expiresInMs: 365 * 86_400_000 })
  try {
    const { user, kind, addresses, host } = tokens.verify(token)
    const asker = { name: nameOf(user.username, user.profiles), user, kind }
    return { asker, fault: undefined, note: NOT_KNOWN, addresses, host }
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
  const { withDatabase } = await import('./open-store.ts')
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

const takenAtItsWord = (token: string): Found => {
  const claims = readRecord(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) ?? {}
  const { profiles } = claims
  const isClaims = Array.isArray(profiles) && profiles.every(profile => typeof profile === 'string')
  if (!isClaims) throw new CannotRun('This is not a token of a gateway')
  const provider = claims.provider === 'cloudidp' || claims.provider === 'client' ? claims.provider : 'ldap'
  const accessStatus = claims.accessStatus === 'assigned' ? 'assigned' : 'unassigned'
  const username = typeof claims.username === 'string' ? claims.username : ''
  const kind = provider === 'client' ? 'client' : 'login'
  const asker: NamedAsker = { name: nameOf(username, profiles), user: { profiles, accessStatus, provider }, kind }
  const addresses = Array.isArray(claims.addresses) ? claims.addresses.map(String) : undefined
  const host = typeof claims.host === 'string' ? claims.host : undefined
  const isExpired = typeof claims.exp !== 'number' || claims.exp * 1000 <= Date.now()
  const fault = isExpired ? { code: 'GW_TOKEN_EXPIRED', reason: 'expired' } : undefined
  return { asker: fault === undefined ? asker : { name: asker.name }, fault, note: NOT_VERIFIED, addresses, host }
}
