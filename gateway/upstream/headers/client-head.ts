// Builds the client's response fields from the upstream's: nothing hop-by-hop, nothing internal, ours added.
import type { OwnCookies } from '../../http/fields.ts'
import { connectionNames } from '../../http/head.ts'
import type { Route } from '../../routes/route.ts'
import type { Upstream } from '../../routes/upstream.ts'
import { MARKS_PER_LINE, parseFieldLines } from '../field-lines.ts'
import { type Removes, type ResponseRules, responseRulesOf } from './header-rules.ts'
import { type PrivatePolicy, privateLines } from './private-answers.ts'
import { type AddressContext, publicAddress, publicCookie, publicRefresh } from './public-addresses.ts'
import {
  BODY_LENGTH,
  CACHE_CONTROL,
  CONTENT_TYPE,
  DATE,
  DROP,
  LOCATION,
  PASS_ON,
  REFRESH,
  SET_COOKIE,
  VARY
} from './response-fields.ts'
import type { ResponseHead } from './response-head.ts'

const SPACE = 32
const EVENT_STREAM = /^text\/event-stream\s*(?:;|$)/i

export interface ResponseContext extends AddressContext {
  /** Cookie names that only the gateway may set. */
  ownCookies: OwnCookies
}

/** What the client's response depends on. @param host as sent to the backend */
export type ResponseContextOf = (route: Route, upstream: Upstream, host: string) => ResponseContext

export const createResponseContext =
  (ownCookies: OwnCookies): ResponseContextOf =>
  (route, upstream, host) => ({
    ownCookies,
    upstream,
    strippedPrefix: route.stripPrefix ?? '',
    host
  })

interface ClientHead {
  /** Field lines, each ending in CRLF. */
  lines: string
  hasDate: boolean
  /** `text/event-stream`: silence is no fault, and every byte is passed on at once. */
  eventStream: boolean
}

/** Browsers return the value of a nameless cookie as it is, so `=name=x` becomes the cookie `name` (RFC 6265bis §5.7). */
const cookieName = (setCookie: string): string => {
  const name = (setCookie.split(/[=;]/, 1)[0] ?? '').trim()
  return name === '' ? (/^[\s=]*([^=;]*)/.exec(setCookie)?.[1] ?? '').trim() : name
}

/** What the client gets of a field other than those about caches; undefined: nothing. */
const passedValue = (kind: number, value: string, status: number, context: ResponseContext): string | undefined => {
  switch (kind) {
    case PASS_ON:
      return value
    case BODY_LENGTH:
      // RFC 9110 §8.6: none on 204.
      return status === 204 ? undefined : value
    case SET_COOKIE:
      return context.ownCookies.has(cookieName(value)) ? undefined : publicCookie(value, context)
    case LOCATION:
      return publicAddress(value, context)
    case REFRESH:
      return publicRefresh(value, context)
    default:
      return kind >= CONTENT_TYPE ? value : undefined
  }
}

/** A head while its lines are taken, one after the other. */
interface Draft extends ClientHead {
  /** Everything before this index of the upstream's head has been copied or left out. */
  copiedTo: number
  cacheControl: string | undefined
  vary: string | undefined
}

/** The names of fields that do not pass; undefined: by their kinds alone. */
interface Removed {
  readonly named: ReadonlySet<string> | undefined
  readonly rules: ResponseRules | undefined
}

const isRemoved = (name: string, kind: number, { named, rules }: Removed): boolean =>
  (kind !== BODY_LENGTH && named?.has(name.toLowerCase()) === true) || rules?.removes(name) === true

const joined = (before: string | undefined, value: string): string =>
  before === undefined ? value : `${before}, ${value}`

/**
 * Lines that pass unchanged are copied later, together with those beside them.
 * @param at the index of the line's marks
 */
const takeLine = (
  draft: Draft,
  { text, marks, status, fieldsEnd }: ResponseHead,
  at: number,
  context: ResponseContext,
  removed: Removed | undefined,
  privacy: PrivatePolicy | undefined
) => {
  const kind = marks[at] ?? DROP
  const start = marks[at + 1] ?? 0
  const nameEnd = marks[at + 2] ?? 0
  const valueStart = marks[at + 3] ?? 0
  const valueEnd = marks[at + 4] ?? 0
  const lineEnd = marks[at + MARKS_PER_LINE + 1] ?? fieldsEnd
  const isPlain = valueStart === nameEnd + 2 && text.charCodeAt(nameEnd + 1) === SPACE && lineEnd === valueEnd + 2
  if (kind === PASS_ON && isPlain && removed === undefined) return

  const value = text.slice(valueStart, valueEnd)
  const name = text.slice(start, nameEnd)
  let passed: string | undefined
  if (privacy === undefined || kind < CACHE_CONTROL) passed = passedValue(kind, value, status, context)
  else if (kind === CACHE_CONTROL) draft.cacheControl = joined(draft.cacheControl, value)
  else if (kind === VARY) draft.vary = joined(draft.vary, value)
  if (kind === CONTENT_TYPE) draft.eventStream = EVENT_STREAM.test(value)
  if (removed !== undefined && isRemoved(name, kind, removed)) passed = undefined
  if (kind === DATE && passed !== undefined) draft.hasDate = true
  if (passed === value && isPlain) return

  if (draft.copiedTo < start) draft.lines += text.slice(draft.copiedTo, start)
  // biome-ignore lint/style/useTemplate: V8 converts what a template holds, and adds known strings as they are.
  if (passed !== undefined) draft.lines += name + ': ' + passed + '\r\n'
  draft.copiedTo = lineEnd
}

/** @param privacy undefined: caching is left to the backend */
export const clientHead = (head: ResponseHead, context: ResponseContext, privacy?: PrivatePolicy): ClientHead => {
  const { text, marks, fieldsEnd } = head
  const named = connectionNames(head.connection)
  const rules = responseRulesOf(context.upstream)
  const removed = named === undefined && rules === undefined ? undefined : { named, rules }
  const draft: Draft = {
    lines: '',
    hasDate: rules?.setsDate === true,
    eventStream: false,
    copiedTo: marks[1] ?? fieldsEnd,
    cacheControl: undefined,
    vary: undefined
  }
  for (let at = 0; at < marks.length; at += MARKS_PER_LINE) takeLine(draft, head, at, context, removed, privacy)
  if (draft.copiedTo < fieldsEnd) draft.lines += text.slice(draft.copiedTo, fieldsEnd)
  if (privacy !== undefined) draft.lines += privateLines(draft.cacheControl, draft.vary, privacy)
  if (rules !== undefined) draft.lines += rules.lines
  return draft
}

/** The same fields as `[name, value, …]`. */
export const clientHeadFields = (head: ResponseHead, context: ResponseContext, privacy?: PrivatePolicy): string[] =>
  parseFieldLines(clientHead(head, context, privacy).lines) ?? []

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
