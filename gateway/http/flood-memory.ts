// Reuses what a flood of requests would otherwise allocate for each of them: one bounded object per gateway.
import type { GatewayError } from '../errors.ts'
import type { Verdict } from '../limits/limiter.ts'
import { type BoundedMap, boundedMap } from '../values/bounded-map.ts'

/** Kinds by field name, as spelled. Senders choose names, so their number is limited. */
export type FieldKinds = Map<string, number>

export interface FloodMemory {
  readonly requestFields: FieldKinds
  /** By the seconds in Retry-After, in which alone rate limit refusals differ. */
  readonly rateRefusals: BoundedMap<number, GatewayError>
  /** Field lines common to all refusals of one content type to one origin. */
  readonly refusalLines: Map<string, string>
  /** The last rate limit refusal as lines of a head; the next one within the same second is identical. */
  lastRefusal: { error: GatewayError; common: string; limit: Verdict; lines: string } | undefined
}

const MOST_REFUSALS = 1024
const MOST_FIELDS = 4096
const LONGEST_NAME = 64

export const createFloodMemory = (): FloodMemory => ({
  requestFields: new Map(),
  rateRefusals: boundedMap(MOST_REFUSALS),
  refusalLines: new Map(),
  lastRefusal: undefined
})

/** The first names stay, because common ones arrive before those of a flood. @param name owns its characters */
export const keepKind = (kinds: FieldKinds, name: string, kind: number): void => {
  if (kinds.size < MOST_FIELDS && name.length <= LONGEST_NAME) kinds.set(name, kind)
}
