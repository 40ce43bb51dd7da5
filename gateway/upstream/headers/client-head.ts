// Builds the client's response fields from the upstream's: nothing hop-by-hop, nothing internal, ours added.
import { parseFieldLines } from '../../http/field-lines.ts'
import type { OwnCookies } from '../../http/fields.ts'
import { HSTS_SECONDS } from '../../http/own-responses.ts'
import { connectionNames, fieldsWithout } from '../../http/request.ts'
import type { Route } from '../../routes/route.ts'
import type { Target, Upstream } from '../../routes/upstream.ts'
import { isLoopbackHost } from '../../values/addresses.ts'
import type { ResponseHead } from '../parser.ts'
import { type Removes, responseRulesOf } from './header-rules.ts'
import type { PrivatePolicy } from './private-answers.ts'
import { type ResponseFieldKind, responseFieldKind } from './response-fields.ts'

const EVENT_STREAM = /^text\/event-stream\s*(?:;|$)/i

interface ResponseContext {
  /** Cookie names that only the gateway may set. */
  readonly ownCookies: OwnCookies
  readonly upstream: Upstream
  /** The prefix of a path that the upstream sees without it; '' if there is none. */
  readonly strippedPrefix: string
  /** The host that the backend received; '' if unknown. */
  readonly host: string
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

/** Browsers return the value of a nameless cookie as it is, so `=name=x` becomes the cookie `name` (RFC 6265bis §5.7). */
const cookieName = (setCookie: string): string => {
  const name = (setCookie.split(/[=;]/, 1)[0] ?? '').trim()
  return name === '' ? (/^[\s=]*([^=;]*)/.exec(setCookie)?.[1] ?? '').trim() : name
}

/** Its cookies and storage hold logins, also those of the other hosts of its site (Clear Site Data §3.1); not what is cached. */
const withoutLogins = (clearSiteData: string): string | undefined => {
  const kept = clearSiteData.split(',').filter(type => !/"(?:cookies|storage|\*)"/i.test(type))
  return kept.length === 0 ? undefined : kept.join(',').trim()
}

/** To zero, or to a moment. The gateway's own responses ask for it, too (RFC 6797 §6.1.1). */
const shortensHsts = (value: string): boolean => {
  const [, seconds] = /(?:^|;)[\t ]*max-age[\t ]*=[\t ]*"?(\d+)/i.exec(value) ?? []
  return seconds !== undefined && Number(seconds) < HSTS_SECONDS
}

/** What the client gets of a field; undefined: nothing, or a line written later. */
const passedValue = (kind: ResponseFieldKind, value: string, context: ResponseContext): string | undefined => {
  switch (kind) {
    case 'set-cookie':
      return context.ownCookies.has(cookieName(value)) ? undefined : publicCookie(value, context)
    case 'address':
      return publicAddress(value, context)
    case 'refresh':
      return publicRefresh(value, context)
    case 'clear-site-data':
      return withoutLogins(value)
    case 'strict-transport-security':
      return shortensHsts(value) ? undefined : value
    case 'drop':
    case 'connection':
    case 'keep-alive':
    case 'transfer-encoding':
      return undefined
    default:
      return value
  }
}

const joined = (before: string | undefined, value: string): string =>
  before === undefined ? value : `${before}, ${value}`

/** @param privacy undefined: caching is left to the backend */
export const clientHead = (head: ResponseHead, context: ResponseContext, privacy?: PrivatePolicy) => {
  const { headers, kinds, announcedLength } = head
  const named = connectionNames(head.connection)
  const rules = responseRulesOf(context.upstream)
  let lines = ''
  // RFC 9110 §8.6: once, and not on 204.
  let hasLength = head.status === 204
  let hasDate = rules?.setsDate === true
  let eventStream = false
  let cacheControl: string | undefined
  let vary: string | undefined
  for (let i = 0; i < kinds.length; i++) {
    const kind = kinds[i] ?? 'drop'
    const name = headers[2 * i] ?? ''
    const value = headers[2 * i + 1] ?? ''
    if (kind === 'content-type') eventStream = EVENT_STREAM.test(value)
    if (privacy !== undefined && (kind === 'cache-control' || kind === 'vary' || kind === 'shared-caches')) {
      if (kind === 'cache-control') cacheControl = joined(cacheControl, value)
      else if (kind === 'vary') vary = joined(vary, value)
      continue
    }
    if (kind === 'content-length') {
      if (!hasLength) lines += `${name}: ${announcedLength}\r\n`
      hasLength = true
      continue
    }
    const passed = kind === 'pass' ? value : passedValue(kind, value, context)
    if (passed === undefined || named?.has(name.toLowerCase()) || rules?.removes(name)) continue
    if (kind === 'date') hasDate = true
    // biome-ignore lint/style/useTemplate: V8 converts what a template holds, and adds known strings as they are.
    lines += name + ': ' + passed + '\r\n'
  }
  if (privacy !== undefined) lines += privacy.cacheControlLine(cacheControl ?? '') + privacy.varyLine(vary ?? '')
  lines += (privacy?.isShared === false ? rules?.privateLines : rules?.lines) ?? ''
  return {
    /** Field lines, each ending in CRLF. */
    lines,
    hasDate,
    /** `text/event-stream`: silence is no fault, and every byte is passed on at once. */
    eventStream
  }
}

/** The same fields as `[name, value, …]`. */
export const clientHeadFields = (head: ResponseHead, context: ResponseContext, privacy?: PrivatePolicy): string[] =>
  parseFieldLines(clientHead(head, context, privacy).lines)

// RFC 9110 §6.5.1: fields that must not be accepted from trailers, beside those that mean something in a head. Digests may follow a
// body (RFC 9530 §2).
const FORBIDDEN_TRAILER =
  /^(?:content-(?!digest$).*|host|authorization|proxy-.*|cookie|expires|retry-after|age|pragma|warning|access-control-.*|x-user-.*)$/i

/** `[name, value, …]` of the permitted trailers. */
export const clientTrailers = (trailers: readonly string[], removes: Removes | undefined): string[] =>
  fieldsWithout(
    trailers,
    name => responseFieldKind(name) !== 'pass' || FORBIDDEN_TRAILER.test(name) || removes?.(name) === true
  )

/** For a reference with an authority (RFC 3986 §4.2). */
const ABSOLUTE = /^(?:(https?):)?\/\/([^/?#\\]*)(.*)$/is
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[^:@]+)(?::(\d{0,5}))?$/
const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443 }

const bare = (host: string): string => {
  const spelled = host.startsWith('[') && URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host
  return spelled.replace(/^\[|\]$/g, '').replace(/\.$/, '')
}

const isSameHost = (target: Target, host: string): boolean =>
  target.host.toLowerCase() === host || (isLoopbackHost(target.host) && isLoopbackHost(host))

/** Whether a URL names the host that the backend received. */
const isAskedHost = (scheme: string | undefined, authority: string, { upstream, host }: ResponseContext): boolean => {
  const asked = host.toLowerCase()
  return upstream.preserveHost && (authority === asked || authority === `${asked}:${DEFAULT_PORTS[scheme ?? '']}`)
}

/** Whether a URL names a backend of the upstream: as it is dialled, or in another spelling. */
const isOwn = (scheme: string | undefined, authority: string, { upstream }: ResponseContext): boolean => {
  if (upstream.targets.some(target => target.authority === authority)) return true
  const [, name, port = ''] = AUTHORITY.exec(authority) ?? []
  if (name === undefined) return false
  return upstream.targets.some(target => {
    const number = port === '' ? DEFAULT_PORTS[scheme ?? (target.tls ? 'https' : 'http')] : Number(port)
    return target.port === number && isSameHost(target, bare(name))
  })
}

/** A backend that supports X-Forwarded-Prefix has already added the prefix itself. */
const withPrefix = (path: string, prefix: string): string => {
  if (prefix === '' || !/^\/(?![/\\])/.test(path)) return path
  return path.startsWith(prefix) && /^(?:[/?#]|$)/.test(path.slice(prefix.length)) ? path : prefix + path
}

/**
 * A redirect to a backend's own address is changed to the same path on the public origin (RFC 9110 §10.2.2). One to https there
 * keeps its origin: as a path, it would lead a client that came by http to where it was.
 */
const publicAddress = (address: string, context: ResponseContext): string => {
  const { strippedPrefix } = context
  const [, protocol, written = '', rest = ''] = ABSOLUTE.exec(address) ?? []
  const [scheme, authority] = [protocol?.toLowerCase(), written.toLowerCase()]
  const isAsked = isAskedHost(scheme, authority, context)
  if (authority === '' || !(isAsked || isOwn(scheme, authority, context))) return withPrefix(address, strippedPrefix)
  const origin = isAsked && scheme === 'https' ? `https://${written}` : ''
  const path = rest.startsWith('/') ? rest : `/${rest}`
  // `//elsewhere` would name another host; after `/.` it is a path (RFC 3986 §5.2.4). Browsers remove tabs (URL Standard §4.4).
  if (/^\/\t*[/\\]/.test(path)) return origin + (strippedPrefix === '' ? `/.${path}` : strippedPrefix + path)
  return origin + withPrefix(path, strippedPrefix)
}

/**
 * `Refresh: 5; url=…`, as browsers parse it (HTML, shared declarative refresh steps). No two parts can take the same characters, nor can
 * they in an attribute of a cookie: a value of 32 KB would block everything for a second.
 */
const publicRefresh = (value: string, context: ResponseContext): string => {
  const [, before, address, after] =
    /^([\d.]*(?:[\t ]*[;,]|[\t ])[\t ]*(?:url[\t ]*=[\t ]*)?["']?)([^"']*)(.*)$/is.exec(value) ?? []
  return before === undefined ? value : before + publicAddress(address ?? '', context) + after
}

const isWithin = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`)

/** Browsers would reject a cookie whose domain covers the backend but not the gateway. */
const isForeignDomain = (domain: string, { upstream, host }: ResponseContext): boolean => {
  const asked = bare(AUTHORITY.exec(host.toLowerCase())?.[1] ?? '')
  return !isWithin(asked, domain) && upstream.targets.some(target => isWithin(target.host.toLowerCase(), domain))
}

const publicAttribute = (attribute: string, isHostCookie: boolean, context: ResponseContext): string | undefined => {
  const [, name = '', written = ''] = /^\s*(path|domain)\s*=(.*)$/i.exec(attribute) ?? []
  if (name === '') return attribute
  const value = written.trim()
  if (name.toLowerCase() === 'domain') {
    const domain = bare(value.replace(/^\./, '').toLowerCase())
    return domain !== '' && isForeignDomain(domain, context) ? undefined : attribute
  }
  // `__Host-` implies Path=/ (RFC 6265bis §4.1.3.2).
  if (isHostCookie || context.strippedPrefix === '' || !value.startsWith('/')) return attribute
  return ` ${name}=${value === '/' ? context.strippedPrefix : withPrefix(value, context.strippedPrefix)}`
}

/** A cookie of the backend is returned to it, and only to it. */
const publicCookie = (setCookie: string, context: ResponseContext): string => {
  if (context.strippedPrefix === '' && !/;\s*domain\s*=/i.test(setCookie)) return setCookie
  const [pair = '', ...attributes] = setCookie.split(';')
  const isHostCookie = /^\s*__Host-/i.test(pair)
  const kept = attributes
    .map(attribute => publicAttribute(attribute, isHostCookie, context))
    .filter(attribute => attribute !== undefined)
  return [pair, ...kept].join(';')
}
