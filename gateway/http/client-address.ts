// Finds the client address, the scheme and the host of a request, which the client cannot choose, and the key to count it by.
import type { RouteTable } from '../routes/route.ts'
import type { Settings } from '../settings/settings.ts'
import {
  contains,
  formatAddress,
  formatSlash64,
  isMapped,
  type Network,
  parseAddress,
  parseNetwork
} from '../values/addresses.ts'
import { remembered } from '../values/bounded-map.ts'
import { hostName } from '../values/urls.ts'
import type { HttpRequest } from './request.ts'

export interface ClientAddress {
  /** IPv4, or IPv6 as RFC 5952 writes it; `unknown` when the socket has none (closed, or a Unix socket). */
  readonly address: string
  /** The key that limits count by: the IPv4 address, or the IPv6 /64, e.g. `2001:db8::/64`. Never empty. */
  readonly key: string
}

export type ClientAddressOf = ReturnType<typeof createClientAddress>

interface Known extends ClientAddress {
  readonly trusted: boolean
}

type Recall = (text: string) => Known | undefined

const MAX_ELEMENT = 64
/** No real chain of proxies is longer; a forged list must not cost CPU time. */
const MAX_HOPS = 32
const MAX_ADDRESS = 128
const MAX_LIST = MAX_HOPS * (MAX_ADDRESS + 1)

const UNKNOWN: Known = Object.freeze({ address: 'unknown', key: 'unknown', trusted: false })

/**
 * @param trustProxy IPs and CIDR blocks, as TRUST_PROXY gives them.
 * @param onUnreadable called once, with the first element from a trusted peer that is not an address
 * @throws TypeError if an entry is neither.
 */
export const createClientAddress = (trustProxy: readonly string[], onUnreadable?: (element: string) => void) => {
  const networks = trustProxy.map(toNetwork)
  const recall: Recall = remembered(text => readAddress(text, networks))
  let report = onUnreadable
  const onNonsense = (element: string) => {
    report?.(element.slice(0, MAX_ELEMENT))
    report = undefined
  }
  const peer = (text: string | undefined): Known => (text === undefined ? UNKNOWN : (recall(text) ?? UNKNOWN))

  /** The rightmost address that is not a trusted proxy's; X-Forwarded-For counts only if the peer is trusted. */
  const clientAddress = (peerAddress: string | undefined, xForwardedFor: string | undefined): ClientAddress => {
    const nearest = peer(peerAddress)
    if (!nearest.trusted || xForwardedFor === undefined) return nearest
    return walk(nearest, xForwardedFor, recall, onNonsense).client
  }
  return Object.assign(clientAddress, {
    /** Whether X-Forwarded-* headers of this peer count. */
    trusted: (peerAddress: string | undefined) => peer(peerAddress).trusted,
    /** How many elements of a trusted peer's X-Forwarded-For are to the right of the client address. */
    hopsBehind: (xForwardedFor: string) => walk(UNKNOWN, xForwardedFor, recall, () => undefined).hops
  })
}

/** Each proxy appends the address of its caller. `hops`: how many elements, all of trusted proxies, are to the right of the client. */
const walk = (
  nearest: Known,
  list: string,
  recall: Recall,
  onNonsense: (element: string) => void
): { client: Known; hops: number } => {
  let client = nearest
  let hops = 0
  for (const [index, element] of fromRight(list).entries()) {
    const known = attested(element, recall)
    if (known === undefined) {
      onNonsense(element.trim())
      break
    }
    client = known
    hops = index
    if (!known.trusted) break
  }
  return { client, hops }
}

/** The elements of a list, the last one first. */
const fromRight = (list: string): string[] => list.slice(-MAX_LIST).split(',').slice(-MAX_HOPS).reverse()

// A zone id is meaningful on one machine only, so no proxy sends one; anything longer than an address is not parsed.
const attested = (element: string, recall: Recall) => {
  if (element.length > MAX_ADDRESS) return undefined
  const text = withoutPort(element.trim())
  return text === '' || text.includes('%') ? undefined : recall(text)
}

/** Azure, IIS and others write `203.0.113.9:40001` and `[2001:db8::1]:443`; an IPv6 address without brackets has no port. */
const withoutPort = (element: string): string => {
  if (!element.startsWith('[') && (!element.includes('.') || !element.includes(':'))) return element
  const [, bracketed, dotted] = /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::\d{1,5})?$/i.exec(element) ?? []
  return bracketed ?? dotted ?? element
}

const readAddress = (text: string, networks: readonly Network[]): Known | undefined => {
  const zone = text.indexOf('%')
  const number = parseAddress(zone === -1 ? text : text.slice(0, zone))
  if (number === undefined) return undefined
  const address = formatAddress(number)
  const key = isMapped(number) ? address : formatSlash64(number)
  return Object.freeze({ address, key, trusted: networks.some(network => contains(network, number)) })
}

export type Scheme = 'http' | 'https'

/** Traefik names those of WebSocket for upgrades. */
const SCHEMES: ReadonlyMap<string, Scheme> = new Map([
  ['https', 'https'],
  ['wss', 'https'],
  ['http', 'http'],
  ['ws', 'http']
])

/** In any case (RFC 3986 §3.1). */
const schemeOf = (text: string): Scheme | undefined => SCHEMES.get(text.trim().toLowerCase())

/**
 * Some proxies replace X-Forwarded-Proto, others append to it. In a list, the element that counts is as far from the right as
 * the client address is in X-Forwarded-For: whatever is to the left of it was sent by the client.
 */
export const clientScheme = (
  { connection, head }: HttpRequest,
  peerTrusted: boolean,
  clientAddress: ClientAddressOf
): Scheme => {
  const own = connection.isTls ? 'https' : 'http'
  const reported = head.forwardedProto
  if (!peerTrusted || reported === undefined) return own
  if (!reported.includes(',')) return schemeOf(reported) ?? own
  const hops = head.forwardedFor === undefined ? 0 : clientAddress.hopsBehind(head.forwardedFor)
  const schemes = fromRight(reported)
  return schemeOf(schemes[hops] ?? schemes.at(-1) ?? '') ?? own
}

const toNetwork = (text: string): Network => {
  const network = parseNetwork(text)
  if (network === undefined) throw new TypeError('A trusted proxy must be an IP address or a CIDR block')
  return network
}

/** undefined: the host can be read in several ways, where hosts choose routes. */
export type RequestHost = (
  said: string | undefined,
  table: Pick<RouteTable, 'hosts' | 'namesHost'>
) => string | undefined

/** Exactly one Host; HTTP/1.0 may do without (RFC 9112 §3.2). */
export const isHostSent = ({ head, versionMinor }: Pick<HttpRequest, 'head' | 'versionMinor'>): boolean =>
  head.hosts === 1 || (head.hosts === 0 && versionMinor === 0)

// host [":" port] of RFC 3986 §3.2.2: a registered name, an IPv4 address, or a bracketed IPv6 address; no user information,
// and no comma, which some parsers read as the end of the first of several hosts.
export const HOST = /^(?:(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

/**
 * Selects the host that a request is for, with its port, among those of this gateway; backends receive the same. Any other host
 * counts as PUBLIC_URL's, so that an invented host gets into no link that a backend writes, and chooses no rules.
 */
export const createRequestHost = ({
  publicUrl,
  allowedHosts
}: Pick<Settings, 'publicUrl' | 'allowedHosts'>): RequestHost => {
  const publicHost = new URL(publicUrl).host
  const allowed = new Set([publicHost, ...allowedHosts])
  const isAny = allowed.has('*')
  return (said, { hosts, namesHost }) => {
    if (said === undefined || said === publicHost) return publicHost
    if (hosts.length > 0) {
      const name = hostName(said)
      if (name === undefined) return undefined
      if (namesHost(name)) return said.toLowerCase()
    }
    if (allowed.has(said.toLowerCase())) return said
    return isAny && HOST.test(said) ? said : publicHost
  }
}
