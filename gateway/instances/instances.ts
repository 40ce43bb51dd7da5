// Connects all processes of the installation, workers and instances alike: each can call the others by name over Redis.
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { RedisStore } from '../redis/redis.ts'
import { within } from '../redis/redis-failure.ts'
import { boundedMap } from '../values/bounded-map.ts'
import { everyInTurn } from '../values/contain.ts'
import { readRecord } from '../values/records.ts'
import { CallFailure, type CallMessage, type Calls, createCalls, gone } from './calls.ts'

export type Instances = Awaited<ReturnType<typeof startInstances>>

const ASK_MS = 1000
const LIST_MS = 500
const OWN_MS = 60_000
const JOIN_MS = 1000
/** A Redis that is connected has this many times as long, for a busy machine; it may also refuse subscriptions. */
const JOIN_TRIES = 5
/** A process that waits for another learns within twice this time that it has ended. */
const WATCH_MS = 200
/** After Redis was away, all instances are known to it again within this time. */
const SETTLE_MS = 5000
const MOST_NAMES = 1000
const NONE: readonly string[] = []
const ALONE = { ids: NONE, unlisted: NONE, isComplete: true }

/** For administrators only, because it names the host. */
const ownName = (): string => `${hostname().replace(/[^\w.-]/g, '-')}:${process.pid}`

/**
 * Bodies are JSON, of a few MB at most. Resolves when the others can reach this process, but does not wait for a Redis that is
 * away. Without Redis it knows of no others.
 */
export const startInstances = async (redis: RedisStore | undefined, name = ownName()) => {
  const own: Instance = { id: randomBytes(4).toString('hex'), name }
  const calls: Calls = createCalls((message, to) => {
    if (to === own.id) return calls.receive(message, own.id)
    return link === undefined ? Promise.reject(gone()) : link.send(message, to)
  })
  const link = redis && createLink(own, redis, calls)
  await link?.join()

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
     * Calls all processes, this one too. `missing` has those that did not reply within a second, by name, or by id if they were
     * never heard of before, and `*` if Redis is unavailable, because there may be others then.
     */
    async askAll(name: string, body?: unknown) {
      const { ids, unlisted, isComplete } = (await link?.others(LIST_MS)) ?? ALONE
      const missing = isComplete ? [] : ['*']
      const nameOf = (id: string) => (id === own.id ? own.name : (link?.nameOf(id) ?? id))
      const asked = [own.id, ...ids, ...unlisted].map(async id => {
        try {
          const reply = await ask(id, name, body, id === own.id ? OWN_MS : ASK_MS)
          return [{ id, name: nameOf(id), body: reply }]
        } catch (error) {
          if (id === own.id) throw error
          const hasEnded = unlisted.includes(id) && error instanceof CallFailure && error.reason === 'gone'
          if (hasEnded) link?.forget(id)
          else missing.push(nameOf(id))
          return []
        }
      })
      const replies = (await Promise.all(asked)).flat()
      return { replies, missing: [...new Set(missing)].sort() }
    },
    answer: calls.answer,
    async close(): Promise<void> {
      calls.close()
      link?.close()
    }
  }
}

const CHANNEL = 'instance:'

const away = (why: string): CallFailure => new CallFailure('away', `other instances cannot be reached: ${why}`)

/** Carries calls between this process and the others, each of which listens to a channel of its own. */
const createLink = (own: Instance, redis: RedisStore, calls: Calls) => {
  const { promise: subscribed, resolve } = Promise.withResolvers<void>()
  /** Of those from which a message has arrived, by id. */
  const names = boundedMap<string, string>(MOST_NAMES)
  let isSubscribed = false
  let isJoined = false
  let settledAt = performance.now()
  /** The ids of the others that were found, until they are forgotten. */
  const known = new Set<string>()
  /** Awaited, but not found by the last look: one whose connection broke subscribes again at once. */
  let missed: ReadonlySet<string> = new Set()
  /** False while Redis is away, and until the others must have found it again. */
  const isSettled = () => isSubscribed && performance.now() >= settledAt

  const noListener = () => (isSettled() ? gone() : away('Redis was away a moment ago'))
  /** The ids of the others; with a `failure` there may be more. Rejects if Redis does not answer in time. */
  const listening = async (): Promise<{ ids: readonly string[]; failure?: unknown }> => {
    const { names, ...rest } = await redis.channels(CHANNEL)
    return { ids: names.filter(id => id !== own.id), ...rest }
  }
  const isListening = async (to: string): Promise<boolean> => {
    const { ids, failure } = await listening()
    if (!ids.includes(to) && failure !== undefined) throw failure
    return ids.includes(to)
  }
  const awaitedOthers = () => [...calls.awaited()].filter(id => id !== own.id)

  const leave = redis.subscribe(
    CHANNEL + own.id,
    text => {
      const message = readRecord(text.toString())
      if (message === undefined) return
      const from = String(message.from)
      if (typeof message.sender === 'string') names.set(from, message.sender)
      calls.receive(message, from)
    },
    isConnected => {
      isSubscribed = isConnected
      if (!isConnected) {
        for (const id of awaitedOthers()) calls.fail(away('Redis is away'), id)
        return
      }
      if (isJoined) settledAt = performance.now() + SETTLE_MS
      resolve()
    }
  )
  /** So that a reply that may take long is not awaited from a process that has ended. */
  const watch = async () => {
    const awaited = isSubscribed ? awaitedOthers() : []
    const { ids, failure } = awaited.length === 0 ? { ids: [] } : await listening()
    const absent = failure === undefined ? awaited.filter(id => !ids.includes(id)) : []
    for (const id of absent) if (missed.has(id)) calls.fail(noListener(), id)
    missed = new Set(absent)
  }
  const stop = everyInTurn(WATCH_MS, () => watch().catch(() => undefined))

  return {
    /** Until this process has subscribed, the others cannot ask it for the sessions that it begins. */
    async join() {
      for (let tries = 1; !isSubscribed; tries++) {
        await within(subscribed, JOIN_MS).catch(() => undefined)
        if (tries === JOIN_TRIES || !redis.isReady()) break
      }
      isJoined = true
    },
    async send(message: CallMessage, to: string) {
      if (!isSubscribed) throw away('Redis is away')
      const text = JSON.stringify({ ...message, from: own.id, sender: own.name })
      // In a Cluster, this count is that of one node.
      const isLost = async () => (await redis.publish(CHANNEL + to, text)) === 0 && !(await isListening(to))
      try {
        if (!(await isLost())) return
        await delay(WATCH_MS)
        if (!(await isLost())) return
      } catch (error) {
        throw away(redis.failure(error).reason)
      }
      throw noListener()
    },
    /** The ids of the others. `unlisted` were found before: they have ended, or subscribe anew, or Redis is away. */
    async others(timeoutMs: number) {
      const { ids, failure } = await within(listening(), timeoutMs).catch((failure: unknown) => ({
        ids: NONE,
        failure
      }))
      const unlisted = [...known].filter(id => !ids.includes(id))
      for (const id of ids) known.add(id)
      return { ids, unlisted, isComplete: failure === undefined && isSettled() }
    },
    forget: (id: string) => known.delete(id),
    nameOf: (id: string): string => names.get(id) ?? id,
    close() {
      stop()
      leave()
    }
  }
}

interface Instance {
  /** Random, new at each start; contains no secret. */
  readonly id: string
  /** For administrators: host name and process id. */
  readonly name: string
}
