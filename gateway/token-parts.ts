// Tokens are issued, verified, remembered and ended, and this instance hears of every end.
import type { Logger } from 'pino'
import type { Identity } from './identity.ts'
import type { Settings } from './settings/settings.ts'
import { listenAccessChanges } from './store/access-changes.ts'
import type { Stores } from './stores.ts'
import { createAccessTokens } from './tokens/access-token.ts'
import { startRevocationFeed } from './tokens/revocation-feed.ts'
import { createRevocations } from './tokens/revocations.ts'
import { createVerifiedTokens } from './tokens/verified-tokens.ts'

export type TokenParts = Awaited<ReturnType<typeof startTokens>>

/** Resolves when everything that has been ended before is known here. */
export const startTokens = async (settings: Settings, { database, tokenState }: Stores, log: Logger) => {
  const tokens = createAccessTokens(settings.jwt)
  const revocations = createRevocations()
  const feed = await startRevocationFeed({
    source: { ...tokenState, listen: on => listenAccessChanges(database, { ...on, log }) },
    revocations,
    log
  })
  const mostStalenessMs = settings.revocationMaxStalenessMs
  return {
    tokens,
    revocations,
    feed,
    verifiedTokens: createVerifiedTokens({ tokens, revocations }),
    revocationsTrusted: () => mostStalenessMs === undefined || feed.staleness() <= mostStalenessMs,
    async endLogin({ user, tokenId, expiresAt }: Identity, context: { requestId: string; ip: string }) {
      await tokenState.revokeToken(tokenId, expiresAt, {
        actor: { id: user.id, username: user.username, ...context },
        action: 'logout',
        target: `user:${user.id}`
      })
      // Here at once; the others hear of it.
      revocations.learn({ tokens: [{ tokenId, expiresAt }] })
    }
  }
}
