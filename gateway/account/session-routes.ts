// Shows people their own live sessions, and ends one of them or all others.
import { identityOf } from '../http/exchange.ts'
import type { Endpoints } from '../http/own-requests.ts'
import { type LiveLogins, loginItemSchema, loginUse } from '../store/live-logins.ts'

export const sessionEndpoints = (liveLogins: LiveLogins): Endpoints => ({
  'GET /auth/sessions': {
    summary: 'Lists your own live sessions, the most recently used first',
    lists: loginItemSchema,
    async run({ exchange, paging }) {
      const identity = identityOf(exchange)
      const { user, tokenId } = identity
      await liveLogins.recordUse(loginUse({ identity, usedAt: Date.now() }))
      return liveLogins.list(user.id, { tokenId, ...paging })
    }
  },
  'DELETE /auth/sessions': {
    summary: 'Ends all your sessions except the current one',
    run: ({ exchange, actor }) => liveLogins.endAll(actor, actor.id, identityOf(exchange).tokenId)
  },
  'DELETE /auth/sessions/:id': {
    summary: 'Ends one of your sessions',
    run: ({ actor, id }) => liveLogins.end(actor, actor.id, id)
  }
})
