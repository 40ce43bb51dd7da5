// Builds the request for an upstream: path, forwarding fields, identity, and none of the gateway's own secrets.

import type { Exchange } from '../../http/exchange.ts'
import type { OwnCookies } from '../../http/fields.ts'
import { bearerToken } from '../../http/head.ts'
import { forwardedPath, type Route } from '../../routes/route.ts'
import type { AccessTokens } from '../../tokens/access-token.ts'
import type { Assertions } from '../../tokens/assertions.ts'
import { holdsOwnToken, withoutOwnTokens } from '../../tokens/own-tokens.ts'
import { requestRulesOf } from './header-rules.ts'
import type { ForwardedValues, UpstreamHeadParts } from './upstream-head.ts'

interface UpstreamRequestOptions {
  tokens: Pick<AccessTokens, 'isOurs'>
  /** Names of cookies that only the gateway may read. */
  ownCookies: OwnCookies
  toldHost: ToldHost
  assertions: Pick<Assertions, 'lineFor'>
}

/** X-Forwarded-*: appended to what a trusted proxy sent, otherwise set anew. */
const forwardedValues = (
  { request, head, host, client, peerTrusted, scheme }: Exchange,
  route: Route,
  isSecret: UpstreamHeadParts['isSecret']
): ForwardedValues => {
  const prefix = route.stripPrefix === undefined || route.stripPrefix === '/' ? '' : route.stripPrefix
  if (!peerTrusted) return { for: client.address, proto: scheme, host, prefix }
  const peer = (request.connection.peer ?? 'unknown').replace(/^::ffff:(?=\d+\.)/, '')
  const before = head.forwardedFor ?? ''
  return {
    for: before === '' || isSecret?.(before) === true ? peer : `${before}, ${peer}`,
    proto: scheme,
    host,
    prefix
  }
}

/**
 * Whether the Authorization field is the token that was judged. An upgrade may carry that one elsewhere, and then the field is
 * not a bearer token, because two of them would have been refused. Access tokens are never forwarded.
 */
const holdsJudgedToken = ({ identity, head }: Exchange): boolean =>
  identity?.kind !== 'personal' && bearerToken(head.authorization) !== undefined

/** The Cookie field without ours, and without those that contain a token of ours; undefined if nothing is left. */
const foreignCookies = (
  cookie: string | undefined,
  ownCookies: OwnCookies,
  isSecret: UpstreamHeadParts['isSecret']
): string | undefined => {
  if (cookie === undefined) return cookie
  const kept = cookie
    .split(';')
    .filter(pair => !ownCookies.has((pair.split('=', 1)[0] ?? '').trim()) && isSecret?.(pair) !== true)
  return kept.length === 0 ? undefined : kept.join(';').trim()
}

export const createUpstreamRequest = (options: UpstreamRequestOptions) => {
  const { tokens, ownCookies, toldHost, assertions } = options
  // On public routes and the HTTP side of Socket.IO, a backend's own credentials pass; a Portaria token only if configured.
  const isSecret = (value: string): boolean => holdsOwnToken(value, tokens.isOurs)

  /** The parts of the upstream request's head. The caller provides `query` and `authority`. */
  return (exchange: Exchange, route: Route, authority: string, query: string): UpstreamHeadParts => {
    const { upstream } = route
    const judges = exchange.identity === undefined ? isSecret : undefined
    exchange.host = toldHost(exchange)
    return {
      exchange,
      target:
        forwardedPath(route, exchange.path) + (judges === undefined ? query : withoutOwnTokens(query, tokens.isOurs)),
      authority: upstream?.preserveHost ? exchange.host : authority,
      forwarded: forwardedValues(exchange, route, judges),
      passAuthorization:
        exchange.identity === undefined || route.ownAuthorization || (route.forwardToken && holdsJudgedToken(exchange)),
      cookie: foreignCookies(exchange.head.cookie, ownCookies, judges),
      isSecret: judges,
      assertion:
        upstream?.assertion && exchange.identity !== undefined
          ? assertions.lineFor(exchange.identity, upstream.name)
          : '',
      rules: upstream === undefined ? undefined : requestRulesOf(upstream)
    }
  }
}

interface HostSettings {
  readonly publicUrl: string
  /** In addition to PUBLIC_URL's, in lower case, with ports; `*`: any. */
  readonly allowedHosts: readonly string[]
}

/**
 * Selects the host name that backends receive, among those of this gateway. Any other host is replaced by PUBLIC_URL's, so that an
 * invented host gets into no link that a backend writes.
 */
type ToldHost = (exchange: Exchange) => string

// host [":" port] of RFC 3986 §3.2.2, as match-route requires of Host; a list of several is invalid.
const ONE_HOST = /^(?:[A-Za-z0-9._~!$&'()*+;=%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

export const createToldHost = ({ publicUrl, allowedHosts }: HostSettings): ToldHost => {
  const publicHost = new URL(publicUrl).host
  const allowed = new Set([publicHost, ...allowedHosts])
  const isAny = allowed.has('*')
  return ({ head, peerTrusted }) => {
    const said = (peerTrusted ? head.forwardedHost : undefined) ?? head.host
    if (said === undefined) return publicHost
    if (said === publicHost || allowed.has(said.toLowerCase())) return said
    return isAny && ONE_HOST.test(said) ? said : publicHost
  }
}
