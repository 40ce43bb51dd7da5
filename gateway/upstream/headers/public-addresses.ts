// Rewrites a backend's URLs and cookies to the public origin and path.

import type { Target, Upstream } from '../../routes/upstream.ts'
import { isLoopbackHost } from '../../values/addresses.ts'

export interface AddressContext {
  readonly upstream: Upstream
  /** The prefix of a path that the upstream sees without it; '' if there is none. */
  readonly strippedPrefix: string
  /** The host that the backend received; '' if unknown. */
  readonly host: string
}

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

/** Whether a URL names a backend of the upstream: as it is dialled, by the host that it received, or in another spelling. */
const isOwn = (scheme: string | undefined, written: string, { upstream, host }: AddressContext): boolean => {
  const authority = written.toLowerCase()
  if (upstream.preserveHost && authority === host.toLowerCase()) return true
  if (upstream.targets.some(target => target.authority === authority)) return true
  const [, name, port = ''] = AUTHORITY.exec(authority) ?? []
  if (name === undefined) return false
  return upstream.targets.some(target => {
    const number = port === '' ? DEFAULT_PORTS[scheme?.toLowerCase() ?? (target.tls ? 'https' : 'http')] : Number(port)
    return target.port === number && isSameHost(target, bare(name))
  })
}

/** A backend that supports X-Forwarded-Prefix has already added the prefix itself. */
const withPrefix = (path: string, prefix: string): string => {
  if (prefix === '' || prefix === '/' || !/^\/(?![/\\])/.test(path)) return path
  return path.startsWith(prefix) && /^(?:[/?#]|$)/.test(path.slice(prefix.length)) ? path : prefix + path
}

/** A redirect to a backend's own address is changed to the same path on the public origin (RFC 9110 §10.2.2). */
export const publicAddress = (address: string, context: AddressContext): string => {
  const { strippedPrefix } = context
  const [, scheme, authority = '', rest = ''] = ABSOLUTE.exec(address) ?? []
  if (authority === '' || !isOwn(scheme, authority, context)) return withPrefix(address, strippedPrefix)
  const path = rest.startsWith('/') ? rest : `/${rest}`
  // `//elsewhere` would name another host; after `/.` it is a path (RFC 3986 §5.2.4).
  if (/^\/[/\\]/.test(path)) return strippedPrefix === '' ? `/.${path}` : strippedPrefix + path
  return withPrefix(path, strippedPrefix)
}

/** `Refresh: 5; url=…`, as browsers parse it (HTML, shared declarative refresh steps). */
export const publicRefresh = (value: string, context: AddressContext): string => {
  const [, before, address, after] = /^(\s*[\d.]*\s*[;,]\s*(?:url\s*=\s*)?["']?)([^"']*)(.*)$/is.exec(value) ?? []
  return before === undefined ? value : before + publicAddress(address ?? '', context) + after
}

const isWithin = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`)

/** Browsers would reject a cookie whose domain covers the backend but not the gateway. */
const isForeignDomain = (domain: string, { upstream, host }: AddressContext): boolean => {
  const asked = bare(AUTHORITY.exec(host.toLowerCase())?.[1] ?? '')
  return !isWithin(asked, domain) && upstream.targets.some(target => isWithin(target.host.toLowerCase(), domain))
}

const publicAttribute = (attribute: string, isHostCookie: boolean, context: AddressContext): string | undefined => {
  const [, name = '', value = ''] = /^\s*(path|domain)\s*=\s*(.*?)\s*$/i.exec(attribute) ?? []
  if (name === '') return attribute
  if (name.toLowerCase() === 'domain') {
    const domain = bare(value.replace(/^\./, '').toLowerCase())
    return domain !== '' && isForeignDomain(domain, context) ? undefined : attribute
  }
  // `__Host-` implies Path=/ (RFC 6265bis §4.1.3.2).
  if (isHostCookie || context.strippedPrefix === '' || !value.startsWith('/')) return attribute
  return ` ${name}=${value === '/' ? context.strippedPrefix : withPrefix(value, context.strippedPrefix)}`
}

/** A cookie of the backend is returned to it, and only to it. */
export const publicCookie = (setCookie: string, context: AddressContext): string => {
  if (context.strippedPrefix === '' && !/;\s*domain\s*=/i.test(setCookie)) return setCookie
  const [pair = '', ...attributes] = setCookie.split(';')
  const isHostCookie = /^\s*__Host-/i.test(pair)
  const kept = attributes
    .map(attribute => publicAttribute(attribute, isHostCookie, context))
    .filter(attribute => attribute !== undefined)
  return [pair, ...kept].join(';')
}
