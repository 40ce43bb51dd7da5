// Carries what may pass to the backends: requests, event streams, WebSocket and Socket.IO.
import type { Logger } from 'pino'
import type { Credentials } from './credentials.ts'
import { createForwardHttp } from './forward/forward-http.ts'
import { forwardedHeaders } from './http/answer.ts'
import type { Observation } from './observe/observation.ts'
import type { LiveRoutes } from './route-files/live.ts'
import type { Settings } from './settings/settings.ts'
import { createSockets } from './sockets.ts'
import type { Stores } from './stores.ts'
import type { TokenParts } from './token-parts.ts'
import { createResponseContext } from './upstream/headers/client-head.ts'
import { createToldHost } from './upstream/headers/told-host.ts'
import { upstreamHead } from './upstream/headers/upstream-head.ts'
import { createUpstreamRequest } from './upstream/headers/upstream-request.ts'
import type { Upstreams } from './upstream/upstreams.ts'

interface ForwardingParts {
  readonly settings: Settings
  readonly stores: Stores
  readonly tokenParts: TokenParts
  readonly credentials: Credentials
  readonly upstreams: Upstreams
  readonly routes: LiveRoutes
  readonly cloudUnassignedMayPass: boolean
  readonly observation: Observation
  readonly log: Logger
}

export const createForwarding = (parts: ForwardingParts) => {
  const { settings, stores, tokenParts, upstreams } = parts
  const { ownCookies, answers, refuse } = parts.credentials
  const responseContext = createResponseContext(ownCookies, answers.memory)
  const upstreamRequest = createUpstreamRequest({
    fieldKinds: answers.memory.requestFields,
    tokens: tokenParts.tokens,
    assertions: tokenParts.assertions,
    ownCookies,
    toldHost: createToldHost(settings)
  })
  const sockets = createSockets({
    ...tokenParts,
    routes: parts.routes.current,
    freshAccess: async id => {
      const person = await stores.users.loadPerson(id)
      return person === undefined || person.disabled ? undefined : person
    },
    streamShares: settings.streamShares,
    cloudUnassignedMayPass: parts.cloudUnassignedMayPass,
    redis: stores.redis,
    upstreams,
    upstreamRequest,
    responseContext,
    answers,
    refuse,
    log: parts.log,
    onSwitched: parts.observation.onClose
  })
  const forwardHttp = createForwardHttp({
    upstreams,
    headFor: (exchange, route, authority) => upstreamHead(upstreamRequest(exchange, route, authority, exchange.query)),
    addedHeaders: (exchange, passed) => forwardedHeaders(exchange, passed, answers),
    responseContext,
    refuse,
    onEventStream: sockets.registerEventStream
  })
  return { sockets, forwardHttp }
}
