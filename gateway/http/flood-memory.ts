// Reuses what a flood of requests would otherwise allocate for each of them: one bounded object per gateway.
import type { GatewayError } from '../errors.ts'
import { type BoundedMap, boundedMap } from '../values/bounded-map.ts'
import type { KnownFields } from './fields.ts'

export interface FloodMemory {
  readonly requestFields: KnownFields
  /** By the seconds in Retry-After, in which alone rate limit refusals differ. */
  readonly rateRefusals: BoundedMap<number, GatewayError>
  /** Field lines common to all refusals of one content type to one origin. */
  readonly refusalLines: Map<string, string>
}

const MOST_REFUSALS = 1024

export const createFloodMemory = (): FloodMemory => ({
  requestFields: new Map(),
  rateRefusals: boundedMap(MOST_REFUSALS),
  refusalLines: new Map()
})
