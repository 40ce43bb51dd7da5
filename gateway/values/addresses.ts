// Reads addresses and networks as numbers in one form: IPv4 is the IPv4-mapped part of IPv6 (RFC 4291 §2.5.5.2).
import { isIPv4, isIPv6 } from 'node:net'

/** Eight 16-bit groups, most significant first. */
type Groups = readonly number[]

export interface Network {
  readonly groups: Groups
  /** 0–128; IPv4 prefixes are counted from bit 96. */
  readonly prefix: number
  readonly ipv4: boolean
}

/** `1.2.3.4`, `::ffff:1.2.3.4` or any other spelling allowed by RFC 4291 §2.2; no port, bracket, zone id or blank. */
export const parseAddress = (text: string): Groups | undefined => {
  if (text.length > 45) return undefined
  if (isIPv4(text)) return [0, 0, 0, 0, 0, 0xffff, ...ipv4Groups(text)]
  if (!isIPv6(text) || text.includes('%')) return undefined
  return ipv6Groups(text)
}

/** An address or a CIDR block; undefined if it is neither. Bits beyond the prefix are ignored. */
export const parseNetwork = (text: string): Network | undefined => {
  const slash = text.indexOf('/')
  const address = slash === -1 ? text : text.slice(0, slash)
  const groups = parseAddress(address)
  if (groups === undefined) return undefined
  const dotted = isIPv4(address)
  if (slash === -1) return { groups, prefix: 128, ipv4: isMapped(groups) }
  const digits = text.slice(slash + 1)
  if (!/^(?:0|[1-9]\d{0,2})$/.test(digits) || Number(digits) > (dotted ? 32 : 128)) return undefined
  const prefix = Number(digits) + (dotted ? 96 : 0)
  return { groups, prefix, ipv4: isMapped(groups) && prefix >= 96 }
}

/** Whether an address is in a network. An IPv6 block never contains IPv4 addresses, however wide it is. */
export const contains = (network: Network, address: Groups): boolean => {
  if (network.ipv4 !== isMapped(address)) return false
  const whole = network.prefix >> 4
  for (let index = 0; index < whole; index++) {
    if (network.groups[index] !== address[index]) return false
  }
  const rest = network.prefix & 15
  if (rest === 0) return true
  const mask = (0xffff << (16 - rest)) & 0xffff
  return ((network.groups[whole] ?? 0) & mask) === ((address[whole] ?? 0) & mask)
}

export const isMapped = (groups: Groups): boolean =>
  groups[5] === 0xffff && groups[0] === 0 && groups[1] === 0 && groups[2] === 0 && groups[3] === 0 && groups[4] === 0

/** Dotted IPv4, or IPv6 as RFC 5952 §4 writes it. */
export const formatAddress = (groups: Groups): string => {
  if (isMapped(groups)) {
    const [high = 0, low = 0] = groups.slice(6)
    return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
  }
  const zeros = longestZeros(groups)
  if (zeros.length < 2) return hex(groups)
  return `${hex(groups.slice(0, zeros.start))}::${hex(groups.slice(zeros.start + zeros.length))}`
}

/** An address, or a CIDR block as {@link parseNetwork} reads it. */
export const formatNetwork = ({ groups, prefix, ipv4 }: Network): string => {
  const address = formatAddress(groups)
  return prefix === 128 ? address : `${address}/${ipv4 ? prefix - 96 : prefix}`
}

/** The /64 of an IPv6 address, e.g. `2001:db8::/64`: the least that one subscriber is assigned (RFC 6177). */
export const formatSlash64 = (groups: Groups): string => `${formatAddress([...groups.slice(0, 4), 0, 0, 0, 0])}/64`

/** What limits count an address by: IPv4 as it is, IPv6 as its /64. undefined: neither an address nor such a /64. */
export const limitKeyOf = (text: string): string | undefined => {
  const network = parseNetwork(text)
  if (network?.prefix === 128) return network.ipv4 ? formatAddress(network.groups) : formatSlash64(network.groups)
  return network?.prefix === 64 && !network.ipv4 ? formatSlash64(network.groups) : undefined
}

/** 127.0.0.0/8, ::1, `localhost` and names below it (RFC 6761 §6.3); brackets around IPv6 are allowed. */
export const isLoopbackHost = (host: string): boolean => {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  if (name === 'localhost' || name.endsWith('.localhost')) return true
  const groups = parseAddress(name)
  return groups !== undefined && LOOPBACK.some(network => contains(network, groups))
}

const ipv4Groups = (text: string): number[] => {
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
  return [(a << 8) | b, (c << 8) | d]
}

const ipv6Groups = (text: string): number[] => {
  const [left = '', right] = text.split('::')
  const head = groupsOf(left)
  if (right === undefined) return head
  const tail = groupsOf(right)
  return [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail]
}

const groupsOf = (text: string): number[] =>
  text === ''
    ? []
    : text.split(':').flatMap(part => (part.includes('.') ? ipv4Groups(part) : [Number.parseInt(part, 16)]))

const hex = (groups: Groups): string => groups.map(group => group.toString(16)).join(':')

const longestZeros = (groups: Groups): { start: number; length: number } => {
  let best = { start: 0, length: 0 }
  let start = 0
  groups.forEach((group, index) => {
    if (group !== 0) start = index + 1
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start }
  })
  return best
}

const LOOPBACK = ['127.0.0.0/8', '::1'].flatMap(text => parseNetwork(text) ?? [])
