// Reads addresses and networks as numbers in one form: IPv4 is the IPv4-mapped part of IPv6 (RFC 4291 §2.5.5.2); tells which networks hold one.
import { isIPv4, isIPv6 } from 'node:net'
import { oncePer } from './bounded-map.ts'

export interface Network {
  readonly address: bigint
  /** 0–128; IPv4 prefixes are counted from bit 96. */
  readonly prefix: number
  readonly ipv4: boolean
}

/** `1.2.3.4`, `::ffff:1.2.3.4` or any other spelling allowed by RFC 4291 §2.2; no port, bracket, zone id or blank. */
export const parseAddress = (text: string): bigint | undefined => {
  if (isIPv4(text)) return text.split('.').reduce((all, byte) => (all << 8n) | BigInt(byte), 0xffffn)
  if (!isIPv6(text) || text.includes('%')) return undefined
  const [head = [], tail = []] = shortened(text).split('::').map(groupsOf)
  const zeros = new Array<string>(8 - head.length - tail.length).fill('0')
  return BigInt(`0x${[...head, ...zeros, ...tail].map(group => group.padStart(4, '0')).join('')}`)
}

/** As RFC 5952 §4 writes it, except that no part of it is dotted. */
const shortened = (ipv6: string): string => new URL(`http://[${ipv6}]`).hostname.slice(1, -1)

const groupsOf = (part: string): string[] => (part === '' ? [] : part.split(':'))

/** An address or a CIDR block; undefined if it is neither. Bits beyond the prefix are ignored. */
export const parseNetwork = (text: string): Network | undefined => {
  const slash = text.indexOf('/')
  const address = slash === -1 ? text : text.slice(0, slash)
  const number = parseAddress(address)
  if (number === undefined) return undefined
  const dotted = isIPv4(address)
  if (slash === -1) return { address: number, prefix: 128, ipv4: isMapped(number) }
  const digits = text.slice(slash + 1)
  if (!/^(?:0|[1-9]\d{0,2})$/.test(digits) || Number(digits) > (dotted ? 32 : 128)) return undefined
  const prefix = Number(digits) + (dotted ? 96 : 0)
  return { address: number, prefix, ipv4: isMapped(number) && prefix >= 96 }
}

/** Whether an address is in a network. An IPv6 block never contains IPv4 addresses, however wide it is. */
export const contains = (network: Network, address: bigint): boolean =>
  network.ipv4 === isMapped(address) && (network.address ^ address) >> BigInt(128 - network.prefix) === 0n

export const isMapped = (address: bigint): boolean => address >> 32n === 0xffffn

/** Dotted IPv4, or IPv6 as RFC 5952 §4 writes it. */
export const formatAddress = (address: bigint): string => {
  if (isMapped(address)) return [24n, 16n, 8n, 0n].map(shift => (address >> shift) & 255n).join('.')
  return shortened(
    address
      .toString(16)
      .padStart(32, '0')
      .replace(/.{4}(?=.)/g, '$&:')
  )
}

/** An address, or a CIDR block as {@link parseNetwork} reads it. */
export const formatNetwork = ({ address, prefix, ipv4 }: Network): string =>
  formatAddress(address) + (prefix === 128 ? '' : `/${ipv4 ? prefix - 96 : prefix}`)

/** The /64 of an IPv6 address, e.g. `2001:db8::/64`: the least that one subscriber is assigned (RFC 6177). */
export const formatSlash64 = (address: bigint): string => `${formatAddress((address >> 64n) << 64n)}/64`

/** What limits count an address by: IPv4 as it is, IPv6 as its /64. undefined: neither an address nor such a /64. */
export const limitKeyOf = (text: string): string | undefined => {
  const network = parseNetwork(text)
  if (network?.prefix === 128) return network.ipv4 ? formatAddress(network.address) : formatSlash64(network.address)
  return network?.prefix === 64 && !network.ipv4 ? formatSlash64(network.address) : undefined
}

/** 127.0.0.0/8, ::1, `localhost` and names below it (RFC 6761 §6.3); brackets around IPv6 are allowed. */
export const isLoopbackHost = (host: string): boolean => {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  if (name === 'localhost' || name.endsWith('.localhost')) return true
  const address = parseAddress(name)
  return address !== undefined && LOOPBACK.some(network => contains(network, address))
}

const LOOPBACK = ['127.0.0.0/8', '::1'].flatMap(text => parseNetwork(text) ?? [])

const networksOf = oncePer((texts: readonly string[]): readonly Network[] =>
  texts.flatMap(text => parseNetwork(text) ?? [])
)

/** Whether one of the CIDR blocks contains the address; without blocks, every address passes. */
export const mayComeFrom = (blocks: readonly string[] | undefined, address: string): boolean => {
  if (blocks === undefined || blocks.length === 0) return true
  const from = parseAddress(address)
  return from !== undefined && networksOf(blocks).some(network => contains(network, from))
}
