// Builds the client's response fields from the upstream's: nothing hop-by-hop, nothing internal, ours added.
import type { OwnCookies } from '../../http/fields.ts'
import { type FieldKinds, type FloodMemory, keepKind } from '../../http/flood-memory.ts'
import type { Route, Upstream } from '../../routes/route.ts'
import { ownText } from '../../values/own-text.ts'
import type { ResponseHead } from '../parser.ts'
import { type Removes, responseRulesOf } from './header-rules.ts'
import { isForSharedCaches, type PrivateAnswers, privateCacheControl, privateVary } from './private-answers.ts'
import { type AddressContext, publicAddress, publicCookie, publicRefresh } from './public-addresses.ts'

const PASS = 0
const DROP = 1
const CONNECTION = 2
const CONTENT_LENGTH = 3
const LOCATION = 4
const CONTENT_TYPE = 5
const SET_COOKIE = 6
const REFRESH = 7
const CACHE_CONTROL = 8
const VARY = 9
const SHARED_CACHES = 10

const KINDS: Record<string, number> = {
  connection: CONNECTION,
  'content-length': CONTENT_LENGTH,
  location: LOCATION,
  'content-location': LOCATION,
  refresh: REFRESH,
  'content-type': CONTENT_TYPE,
  'set-cookie': SET_COOKIE,
  'cache-control': CACHE_CONTROL,
  vary: VARY,
  'keep-alive': DROP,
  'proxy-connection': DROP,
  'proxy-authenticate': DROP,
  'transfer-encoding': DROP,
  te: DROP,
  // The gateway frames the response itself; trailers follow after a chunked body (RFC 9110 §6.5).
  trailer: DROP,
  upgrade: DROP,
  // Would lead browsers around the gateway (RFC 7838 §3).
  'alt-svc': DROP,
  'x-request-id': DROP,
  'x-ratelimit-limit': DROP,
  'x-ratelimit-remaining': DROP,
  'x-ratelimit-reset': DROP
}

const kindOf = (name: string, known: FieldKinds): number => {
  const remembered = known.get(name)
  if (remembered !== undefined) return remembered
  const lower = name.toLowerCase()
  const kind = Object.hasOwn(KINDS, lower) ? (KINDS[lower] ?? PASS) : isForSharedCaches(lower) ? SHARED_CACHES : PASS
  keepKind(known, ownText(name), kind)
  return kind
}

export interface ResponseContext extends AddressContext {
  /** Cookie names that only the gateway may set. */
  ownCookies: OwnCookies
  fieldKinds: FieldKinds
}

/** What the client's response depends on. @param host as sent to the backend */
export type ResponseContextOf = (route: Route, upstream: Upstream, host: string) => ResponseContext

export const createResponseContext =
  (ownCookies: OwnCookies, { responseFields }: FloodMemory): ResponseContextOf =>
  (route, upstream, host) => ({
    ownCookies,
    fieldKinds: responseFields,
    upstream,
    strippedPrefix: route.stripPrefix ?? '',
    host
  })

interface ClientHead {
  /** `[name, value, …]` */
  headers: string[]
  /** `text/event-stream`: silence is no fault, and every byte is passed on at once. */
  eventStream: boolean
}

const namedByConnection = (head: ResponseHead, kinds: FieldKinds): ReadonlySet<string> | undefined => {
  let names: Set<string> | undefined
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i] ?? ''
    if (name.length !== 10 || kindOf(name, kinds) !== CONNECTION) continue
    const value = head.headers[i + 1] ?? ''
    if (value === 'keep-alive' || value === 'close') continue
    for (const named of value.toLowerCase().split(',')) {
      const token = named.trim()
      if (token === '' || token === 'close' || token === 'keep-alive') continue
      names ??= new Set()
      names.add(token)
    }
  }
  return names
}

/** Browsers return the value of a nameless cookie as it is, so `=name=x` becomes the cookie `name` (RFC 6265bis §5.7). */
const cookieName = (setCookie: string): string => {
  const name = (setCookie.split(/[=;]/, 1)[0] ?? '').trim()
  return name === '' ? (/^[\s=]*([^=;]*)/.exec(setCookie)?.[1] ?? '').trim() : name
}

/** @param privacy undefined: caching is left to the backend */
export const clientHead = (head: ResponseHead, context: ResponseContext, privacy?: PrivateAnswers): ClientHead => {
  const headers: string[] = []
  const { fieldKinds } = context
  const named = namedByConnection(head, fieldKinds)
  const rules = responseRulesOf(context.upstream)
  let eventStream = false
  let cacheControl: string | undefined
  let vary: string | undefined
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i] ?? ''
    let value = head.headers[i + 1] ?? ''
    const kind = kindOf(name, fieldKinds)
    if (kind !== PASS) {
      if (kind === DROP || kind === CONNECTION) continue
      // RFC 9110 §8.6: none on 204.
      if (kind === CONTENT_LENGTH && head.status === 204) continue
      if (privacy !== undefined && kind >= CACHE_CONTROL) {
        if (kind === CACHE_CONTROL) cacheControl = cacheControl === undefined ? value : `${cacheControl}, ${value}`
        else if (kind === VARY) vary = vary === undefined ? value : `${vary}, ${value}`
        continue
      }
      if (kind === SET_COOKIE && context.ownCookies.has(cookieName(value))) continue
      if (kind === LOCATION) value = publicAddress(value, context)
      if (kind === REFRESH) value = publicRefresh(value, context)
      if (kind === SET_COOKIE) value = publicCookie(value, context)
      if (kind === CONTENT_TYPE) eventStream = /^text\/event-stream\s*(?:;|$)/i.test(value)
    }
    if (named?.has(name.toLowerCase()) && kind !== CONTENT_LENGTH) continue
    if (rules?.removes(name)) continue
    headers.push(name, value)
  }
  if (privacy !== undefined)
    headers.push('cache-control', privateCacheControl(cacheControl, privacy), 'vary', privateVary(vary, privacy))
  if (rules !== undefined) headers.push(...rules.set)
  return { headers, eventStream }
}

// RFC 9110 §6.5.1: fields that must not be accepted from trailers.
const FORBIDDEN_TRAILER =
  /^(?:content-.*|transfer-encoding|trailer|host|connection|keep-alive|te|upgrade|authorization|www-authenticate|proxy-.*|set-cookie|cookie|cache-control|expires|date|location|retry-after|vary|age|pragma|warning|x-user-.*|x-request-id)$/i

/** `[name, value, …]` of the permitted trailers. */
export const clientTrailers = (trailers: readonly string[], removes: Removes | undefined): string[] => {
  const passed: string[] = []
  for (let i = 0; i < trailers.length; i += 2) {
    const name = trailers[i] ?? ''
    if (!FORBIDDEN_TRAILER.test(name) && !removes?.(name)) passed.push(name, trailers[i + 1] ?? '')
  }
  return passed
}
