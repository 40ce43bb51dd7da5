// Records in Redis which processes of the installation are running, and returns the others.
import type { RedisStore } from '../redis/redis.ts'

export interface Instance {
  /** Random, new at each start; contains no secret. */
  readonly id: string
  /** For administrators: host name and process id. */
  readonly name: string
}

const KEY = 'instances'
const BEAT_MS = 10_000
const REPORT_MS = 1000
/** One that ended without leaving, or lost Redis, is listed for this long. */
const LISTED_MS = 60_000

// By Redis's clock, as the clocks of machines differ. ARGV: this process, how long the others are listed.
const PRESENT = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)`

const LEAVE = `return redis.call('ZREM', KEYS[1], ARGV[1])`

const read = (member: unknown): Instance => {
  const [id = '', name = ''] = String(member).split(' ', 2)
  return { id, name }
}

export const createPresence = (redis: RedisStore, own: Instance) => {
  const member = `${own.id} ${own.name}`
  let others: readonly Instance[] = []
  let reportedAt = Number.NEGATIVE_INFINITY

  /** Records that this process is running. @returns all others; rejects if Redis does not reply in time */
  const report = async (timeoutMs: number): Promise<readonly Instance[]> => {
    const members = await redis.evalScript(PRESENT, [KEY], [member, LISTED_MS], timeoutMs)
    reportedAt = performance.now()
    others = (Array.isArray(members) ? members.map(read) : []).filter(({ id }) => id !== own.id)
    return others
  }

  return {
    report,
    /** Reports if it is time for it, or Redis may have forgotten what was reported. */
    async keep(isForgotten = false) {
      if (isForgotten) reportedAt = Number.NEGATIVE_INFINITY
      if (performance.now() - reportedAt > BEAT_MS) await report(REPORT_MS)
    },
    /** The others, as last reported. */
    known: () => others,
    leave: () => redis.evalScript(LEAVE, [KEY], [member], REPORT_MS).catch(() => undefined)
  }
}
