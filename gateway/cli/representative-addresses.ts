// Lists client addresses that together show every difference between the networks of the routes of two tables.
import { isOutside } from '../routes/decide.ts'
import type { Route } from '../routes/route.ts'
import { formatAddress, type Network, parseAddress } from '../values/addresses.ts'

/**
 * One address of each kind that the routes' `from` distinguish: the first of each network, and the first after it, where wider
 * networks may go on. `undefined`, an address in no network, comes first.
 */
export const representativeAddresses = (routes: readonly Route[]): readonly (string | undefined)[] => {
  const restricted = routes.filter(({ from }) => from !== undefined)
  const candidates = restricted.flatMap(({ from = [] }) => from.flatMap(edgesOf))
  const byKind = new Map<string, string | undefined>()
  for (const address of [undefined, ...candidates]) {
    const kind = restricted.map(route => isOutside(route, address)).join()
    if (!byKind.has(kind)) byKind.set(kind, address)
  }
  return [...byKind.values()]
}

const WIDTH = 128

/** The first address of a network, and the first after its last; undefined where numbers end. */
const edgesOf = ({ groups, prefix }: Network): string[] => {
  const number = groups.reduce((all, group) => (all << 16n) | BigInt(group), 0n)
  const size = 1n << BigInt(WIDTH - prefix)
  const first = number - (number % size)
  return [first, first + size].flatMap(edge => textOf(edge) ?? [])
}

const textOf = (number: bigint): string | undefined => {
  if (number >> BigInt(WIDTH) !== 0n) return undefined
  const hex = number.toString(16).padStart(WIDTH / 4, '0')
  const groups = parseAddress(hex.replace(/.{4}(?=.)/g, '$&:'))
  return groups && formatAddress(groups)
}
