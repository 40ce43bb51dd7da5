// Shows people their own live sessions, and ends one of them or all others.
import { identityOf } from '../http/exchange.ts'
import type { Endpoints } from '../http/own-requests.ts'
import { type Sessions, sessionItemSchema, sessionUse } from '../store/sessions.ts'

export const sessionEndpoints = (sessions: Sessions): Endpoints => ({
  'GET /auth/sessions': {
    summary: 'Lists your own live sessions, the most recently used first',
    lists: sessionItemSchema,
    async run({ exchange, paging }) {
      const identity = identityOf(exchange)
      const { user, tokenId } = identity
      await sessions.recordUse(sessionUse({ identity, usedAt: Date.now() }))
      return sessions.list(user.id, { tokenId, ...paging })
    }
  },
  'DELETE /auth/sessions': {
    summary: 'Ends all your sessions except the current one',
    run: ({ exchange, actor }) => sessions.endAll(actor, actor.id, identityOf(exchange).tokenId)
  },
  'DELETE /auth/sessions/:id': {
    summary: 'Ends one of your sessions',
    run: ({ actor, id }) => sessions.end(actor, actor.id, id)
  }
})
