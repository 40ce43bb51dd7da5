// Checks the credentials of an upgrade: its token, wherever browsers can put one, and the origin of the page.
import { BadRequest } from '../errors.ts'
import type { Exchange, SocketToken } from '../http/exchange.ts'
import { bearerToken, fieldValues } from '../http/request.ts'
import { decode } from '../routes/canonical-path.ts'
import type { Route } from '../routes/route.ts'
import { holdsOwnToken } from '../tokens/own-tokens.ts'
import { isPersonalToken } from '../tokens/personal-tokens.ts'

const QUERY_TOKEN = 'access_token'

type OfferRules = Pick<Route, 'websocket' | 'ownAuthorization' | 'public'>

/** Throws 400 if a source is malformed or two sources disagree, because the gateway must not guess which one counts. */
export const socketToken = (exchange: Exchange, route: OfferRules): SocketToken => {
  // What is offered there is the application's, whatever it looks like.
  if (route.ownAuthorization || route.public) {
    const subprotocols = fieldValues(exchange.request.fields, 'sec-websocket-protocol').flatMap(splitList)
    return { token: undefined, subprotocols, bearerOffered: false, query: exchange.query }
  }
  const offer = splitOffer(exchange.request.fields)
  const query = route.websocket?.tokenInQuery === true ? splitQuery(exchange.query) : { query: exchange.query }
  const given = [bearerToken(exchange.head.authorization), offer.token, query.token].filter(
    token => token !== undefined
  )
  if (new Set(given).size > 1) throw new BadRequest({ reason: 'tokens-disagree' })
  return {
    token: given[0],
    subprotocols: offer.subprotocols,
    bearerOffered: offer.token !== undefined,
    query: query.query
  }
}

/** A Portaria token among the subprotocols, with `bearer` before it or without, reaches no backend of a public route. */
export const withoutPublicTokens = (
  offer: SocketToken,
  { identity }: Exchange,
  isOurs: (token: string) => boolean
): SocketToken => {
  if (identity !== undefined) return offer
  const isToken = offer.subprotocols.map(protocol => holdsOwnToken(protocol, isOurs))
  const isBearer = offer.subprotocols.map((protocol, i) => protocol === 'bearer' && isToken[i + 1] === true)
  return {
    ...offer,
    subprotocols: offer.subprotocols.filter((_, i) => isToken[i] !== true && isBearer[i] !== true),
    bearerOffered: isBearer.includes(true)
  }
}

const splitList = (value: string): string[] => value.split(',').map(item => item.trim())

const splitOffer = (rawHeaders: readonly string[]): { token?: string; subprotocols: string[] } => {
  const subprotocols = fieldValues(rawHeaders, 'sec-websocket-protocol').flatMap(splitList)
  const at = subprotocols.indexOf('bearer')
  if (at === -1) return { subprotocols }
  const [, token] = subprotocols.splice(at, 2)
  if (token === undefined || token === '' || subprotocols.includes('bearer')) {
    throw new BadRequest({ reason: 'bearer-subprotocol' })
  }
  return { token, subprotocols }
}

const nameOf = (pair: string): string => {
  const [name = ''] = pair.split('=', 1)
  return decode(name) ?? name
}

const splitQuery = (query: string): { token?: string; query: string } => {
  const pairs = query.slice(1).split('&')
  const tokens = pairs.filter(pair => nameOf(pair) === QUERY_TOKEN)
  const [pair] = tokens
  if (pair === undefined) return { query }
  const equals = pair.indexOf('=')
  const token = equals === -1 ? '' : pair.slice(equals + 1)
  // Access tokens are long-lived; in a query they would end up in histories and logs.
  if (tokens.length > 1 || isPersonalToken(token) || !/^[A-Za-z0-9._-]+$/.test(token))
    throw new BadRequest({ reason: 'token-in-query' })
  const rest = pairs.filter(other => other !== pair)
  return { token, query: rest.length === 0 ? '' : `?${rest.join('&')}` }
}

interface OriginQuestion {
  /** All Origin fields; browsers send exactly one. */
  readonly sent: readonly string[]
  /** Origins as `new URL(…).origin` writes them. */
  readonly allowed: readonly string[]
  /** The person is identified by a cookie, which browsers send for any page. */
  readonly byCookie: boolean
}

/** Exact comparison: browsers write origins in one spelling, and nothing else comes from a browser. `null` is never allowed. */
export const originAllowed = ({ sent, allowed, byCookie }: OriginQuestion): boolean => {
  const [origin, ...further] = sent
  if (origin === undefined) return !byCookie
  return further.length === 0 && origin !== 'null' && allowed.includes(origin)
}
