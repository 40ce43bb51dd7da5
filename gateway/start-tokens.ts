// Issues, verifies, caches and ends tokens, and follows what other instances end.
import type { Logger } from 'pino'
import type { Identity, ProvenPerson } from './identity.ts'
import { loginEntry, targetOf } from './login/audit.ts'
import type { LoginOutcome } from './login/sign-in.ts'
import type { Settings } from './settings/settings.ts'
import { listenAccessChanges } from './store/access-changes.ts'
import { clientUse } from './store/clients.ts'
import { loginUse } from './store/live-logins.ts'
import { updateSigningKeys } from './store/signing-keys.ts'
import type { Stores } from './stores.ts'
import { createAccessTokens } from './tokens/access-token.ts'
import { createAssertions, startAssertionFeed } from './tokens/assertions.ts'
import { createPersonalTokens } from './tokens/personal-tokens.ts'
import { createRenewLogin } from './tokens/renew-login.ts'
import { startRevocationFeed } from './tokens/revocation-feed.ts'
import { createRevocations } from './tokens/revocations.ts'
import { sealingSecret } from './tokens/sealed-keys.ts'
import { planKeys } from './tokens/signing-keys.ts'
import { createTokenUses } from './tokens/token-uses.ts'
import { createVerifiedTokens } from './tokens/verified-tokens.ts'

const GATEWAY_ACTOR = { id: null, username: 'gateway' }

export type TokenParts = Awaited<ReturnType<typeof startTokens>>

/** Resolves when this instance knows everything that has been ended so far. */
export const startTokens = async (
  settings: Settings,
  { database, users, tokenState, liveLogins, logins, clients, personalTokens: personalTokenStore }: Stores,
  log: Logger
) => {
  const tokens = createAccessTokens(settings.jwt)
  const revocations = createRevocations()
  const personalTokens = createPersonalTokens({ revocations, confirmMs: settings.accessTokenConfirmMs })
  const mostStalenessMs = settings.revocationMaxStalenessMs
  const feed = await startRevocationFeed({
    source: {
      ...tokenState,
      readLiveTokens: personalTokenStore.readLive,
      listen: on => listenAccessChanges(database, { ...on, log })
    },
    revocations,
    personalTokens,
    mostStalenessMs,
    log
  })
  const verifiedTokens = createVerifiedTokens({ tokens, revocations, personalTokens })
  const uses = createTokenUses({
    usedSince: verifiedTokens.usedSince,
    async record(used) {
      const identities = used.filter(use => 'identity' in use)
      await liveLogins.recordUse(identities.flatMap(loginUse))
      await clients.recordUse(identities.flatMap(clientUse))
      await personalTokenStore.recordUse(used.filter(use => 'personalToken' in use))
    },
    log
  })
  const secrets = [settings.jwt.secret, ...settings.jwt.previousSecrets].map(sealingSecret)
  const assertions = createAssertions({ issuer: settings.publicUrl, secrets })
  const rotationS = settings.assertionKeyRotationMs / 1000
  const assertionFeed = await startAssertionFeed({
    assertions,
    read: isStart =>
      updateSigningKeys(database, GATEWAY_ACTOR, (rows, nowS) => planKeys(rows, { secrets, rotationS, nowS, isStart })),
    log
  })
  return {
    tokens,
    revocations,
    feed,
    verifiedTokens,
    personalTokens,
    assertions,
    uses,
    isOurs: (token: string) => tokens.isOurs(token) || personalTokens.isLive(token),
    renewLogin: createRenewLogin({ tokens, loadPerson: users.loadPerson, prolongLogin: liveLogins.renew }),
    revocationsTrusted: () => mostStalenessMs === undefined || feed.staleness() <= mostStalenessMs,
    /** Stores an accepted login. Returns what has ended it meanwhile. Throws DatabaseUnavailable. */
    async beginSession(token: string, person: ProvenPerson, outcome: LoginOutcome) {
      const identity = tokens.verify(token)
      const { issuer, subject, providerSession: sid, idTokenIssuedAt: issuedAt = 0 } = person
      const session = { issuer, subject, sid, issuedAt, loginEndsAt: tokens.endsAt(identity) }
      const atProvider = person.provider === 'cloudidp' ? session : undefined
      const { ip, userAgent = '' } = outcome
      const [login] = loginUse({ identity, usedAt: Date.now() })
      if (login === undefined) throw new Error('a token of a login is not one of a person')
      return logins.liveLogins.begin({ login, ip, userAgent, atProvider, entry: loginEntry(outcome) })
    },
    async endLogin(login: Identity, context: { requestId: string; ip: string }) {
      const { user, tokenId } = login
      // Copies with a later `exp` may exist.
      const expiresAt = tokens.endsAt(login)
      await tokenState.revokeToken(tokenId, expiresAt, {
        actor: { id: user.id, username: user.username, ...context },
        action: 'logout',
        target: targetOf(user.provider, user.id)
      })
      // Effective here at once; the other instances are notified.
      revocations.learn({ tokens: [{ jti: tokenId, expiresAt }] })
    },
    async close() {
      assertionFeed.close()
      await uses.close()
      await feed.close()
    }
  }
}
