// Reports repeated events of a flood once a minute instead of each time.
import { boundedMap } from '../values/bounded-map.ts'

const QUIET_MS = 60_000
const MAX_TOPICS = 10_000

/** Whether a topic is due to be reported; calling this counts as reporting. `clock`: monotonic ms. */
export const createReports = (clock: () => number): ((topic: string) => boolean) => {
  const reported = boundedMap<string, number>(MAX_TOPICS)
  return topic => {
    const at = reported.get(topic)
    if (at !== undefined && clock() - at < QUIET_MS) return false
    reported.set(topic, clock())
    return true
  }
}
