// Checks whether a token may be used from an address, because service accounts may be restricted to networks.
import type { Identity } from '../identity.ts'
import { contains, type Network, parseAddress, parseNetwork } from '../values/addresses.ts'
import { oncePer } from '../values/bounded-map.ts'

const networksOf = oncePer((texts: readonly string[]): readonly Network[] =>
  texts.flatMap(text => parseNetwork(text) ?? [])
)

/** Whether one of the CIDR blocks contains the address; without blocks, every address passes. */
export const mayComeFrom = (blocks: readonly string[] | undefined, address: string): boolean => {
  if (blocks === undefined || blocks.length === 0) return true
  const from = parseAddress(address)
  return from !== undefined && networksOf(blocks).some(network => contains(network, from))
}

export const isFromElsewhere = ({ addresses }: Identity, address: string): boolean =>
  addresses !== undefined && !mayComeFrom(addresses, address)
