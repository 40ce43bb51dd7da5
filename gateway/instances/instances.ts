// Connects all processes of the installation, workers and instances alike: each can call the others by name over Redis.
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { RedisStore } from '../redis/redis.ts'
import { within } from '../redis/redis-failure.ts'
import { every } from '../values/contain.ts'
import { CallFailure, type CallMessage, type Calls, createCalls, gone } from './calls.ts'

export type Instances = Awaited<ReturnType<typeof startInstances>>

const ASK_MS = 1000
const LIST_MS = 500
const OWN_MS = 60_000
const JOIN_MS = 1000
/** A process that waits for another learns within this time that it has ended. */
const WATCH_MS = 200
/** After Redis was away, all instances are known to it again within this time. */
const SETTLE_MS = 5000

/** For administrators only, because it names the host. */
const ownName = (): string => `${hostname().replace(/[^\w.-]/g, '-')}:${process.pid}`

/**
 * Bodies are JSON, except for one Buffer, of a few MB at most, in the property `bytes`. Resolves when the others can reach this
 * process, after a second at most. Without Redis it knows of no others.
 */
export const startInstances = async (redis: RedisStore | undefined, name = ownName()) => {
  const own: Instance = { id: randomBytes(4).toString('hex'), name }
  const calls: Calls = createCalls((message, to) => {
    if (to === own.id) return calls.receive(message, own.id)
    return link === undefined ? Promise.reject(gone()) : link.send(message, to)
  })
  const link = redis && createLink(own, redis, calls)
  await link?.joined(JOIN_MS)

  /**
   * Calls one process; this one too, which needs no Redis. Rejects with a {@link CallFailure}: `gone` within a second
   * of its end, `away` if Redis cannot be used, `timeout`, or `failed` with the message of what its handler threw.
   */
  const ask = (to: string, name: string, body?: unknown, timeoutMs = ASK_MS): Promise<unknown> =>
    calls.call(name, body, { to, timeoutMs })

  return {
    ...own,
    ask,
    /**
     * Calls all processes, this one too. `missing` has the names of those that did not reply within a second, and `*` if
     * Redis is unavailable, because there may be others then.
     */
    async askAll(
      name: string,
      body?: unknown
    ): Promise<{ replies: (Instance & { body: unknown })[]; missing: string[] }> {
      const { others, isComplete } = (await link?.others(LIST_MS)) ?? { others: [], isComplete: true }
      const missing = isComplete ? [] : ['*']
      const asked = [own, ...others].map(async each => {
        try {
          return [{ ...each, body: await ask(each.id, name, body, each === own ? OWN_MS : ASK_MS) }]
        } catch (error) {
          if (each === own) throw error
          missing.push(each.name)
          return []
        }
      })
      const replies = (await Promise.all(asked)).flat()
      return { replies, missing: [...new Set(missing)].sort() }
    },
    answer: calls.answer,
    async close(): Promise<void> {
      calls.close()
      await link?.close()
    }
  }
}

const channelOf = (id: string): string => `instance:${id}`

const away = (why: string): CallFailure => new CallFailure('away', `other instances cannot be reached: ${why}`)

/** Carries calls between this process and the others. */
const createLink = (own: Instance, redis: RedisStore, calls: Calls) => {
  const presence = createPresence(redis, own)
  const { promise: joined, resolve } = Promise.withResolvers<unknown>()
  const startedAt = performance.now()
  let isSubscribed = false
  let settledAt = startedAt
  /** False while Redis is away, and until the others must have found it again. */
  const isSettled = () => isSubscribed && performance.now() >= settledAt

  const noListener = () => (isSettled() ? gone() : away('Redis was away a moment ago'))
  /** Those of these processes that do not listen. */
  const notListening = async (ids: readonly string[]) => {
    const counts = await redis.receivers(ids.map(channelOf))
    return ids.filter((_, index) => counts[index] === 0)
  }
  const awaitedOthers = () => [...calls.awaited()].filter(id => id !== own.id)

  const leave = redis.subscribe(
    channelOf(own.id),
    frame => {
      const message = decodeFrame(frame)
      if (message !== undefined) calls.receive(message, String(message.from))
    },
    isConnected => {
      isSubscribed = isConnected
      if (!isConnected) {
        for (const id of awaitedOthers()) calls.fail(away('Redis is away'), id)
        return
      }
      const now = performance.now()
      if (now - startedAt > JOIN_MS) settledAt = now + SETTLE_MS
      presence.keep(true).then(resolve, () => undefined)
    }
  )
  const watch = async () => {
    if (!isSubscribed) return
    await presence.keep()
    // So that a reply that may take long is not awaited from a process that has ended.
    const awaited = awaitedOthers()
    if (awaited.length > 0) for (const id of await notListening(awaited)) calls.fail(noListener(), id)
  }
  const stop = every(WATCH_MS, () => watch().catch(() => undefined))

  return {
    joined: (timeoutMs: number) => within(joined, timeoutMs).catch(() => undefined),
    async send(message: CallMessage, to: string) {
      if (!isSubscribed) throw away('Redis is away')
      const frame = encodeFrame({ ...message, from: own.id })
      // In a Cluster, the first count is that of one node.
      const isLost = async () =>
        (await redis.publish(channelOf(to), frame)) === 0 && (await notListening([to])).length > 0
      const lost = await isLost().catch(error => {
        throw away(redis.failure(error).reason)
      })
      if (lost) throw noListener()
    },
    /** Those last known if Redis is away. */
    others: (timeoutMs: number) =>
      presence.report(timeoutMs).then(
        others => ({ others, isComplete: isSettled() }),
        () => ({ others: presence.known(), isComplete: false })
      ),
    async close() {
      stop()
      leave()
      await presence.leave()
    }
  }
}

/** Bytes of the length. */
const PREFIX = 4

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** A Buffer in the property `bytes` of its body is not turned into JSON. */
export const encodeFrame = (message: { readonly from: string; readonly body?: unknown }): Buffer => {
  const { body } = message
  const bytes = isRecord(body) && Buffer.isBuffer(body.bytes) ? body.bytes : undefined
  const plain = bytes === undefined ? message : { ...message, body: { ...(body as object), bytes: true } }
  const json = Buffer.from(JSON.stringify({ ...plain, hasBytes: bytes !== undefined }))
  const prefix = Buffer.alloc(PREFIX)
  prefix.writeUInt32BE(json.length)
  return Buffer.concat(bytes === undefined ? [prefix, json] : [prefix, json, bytes])
}

/** undefined: it is not a frame. The bytes are a part of the given buffer. */
export const decodeFrame = (frame: Buffer): Record<string, unknown> | undefined => {
  if (frame.length < PREFIX) return undefined
  const end = PREFIX + frame.readUInt32BE()
  try {
    const message: unknown = JSON.parse(frame.toString('utf8', PREFIX, end))
    if (!isRecord(message)) return undefined
    if (message.hasBytes === true && isRecord(message.body)) message.body.bytes = frame.subarray(end)
    return message
  } catch {
    return undefined
  }
}

interface Instance {
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

/** Records in Redis which processes of the installation are running, and returns the others. */
const createPresence = (redis: RedisStore, own: Instance) => {
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
