// Passes the messages of a Redis channel on, and tells when the subscription is lost and regained.
import type { Redis } from 'ioredis'
import { every, task } from '../values/contain.ts'
import { redisFault } from './redis-failure.ts'

/** A silent connection is detected within two of these. */
const PING_INTERVAL_MS = 1000

/**
 * @param connect opens one connection that does not reconnect by itself
 * @param delayMs how long to wait before the nth further attempt
 * @param onRefused called once for all attempts that Redis refuses in a row
 */
export const createSubscribe = (
  connect: () => Redis,
  delayMs: (attempt: number) => number,
  onRefused: (error: unknown) => void
) => {
  const connections = new Set<Redis>()

  /**
   * Listens to a channel until the returned function is called. `onConnectionChange(true)` is called each time Redis has confirmed
   * the subscription: earlier messages may have been missed. `false` follows when the connection ends.
   */
  const subscribe = (
    channel: string,
    onMessage: (message: Buffer) => void,
    onConnectionChange: (connected: boolean) => void
  ) => {
    let connection: Redis | undefined
    let retry: NodeJS.Timeout | undefined
    let attempt = 0
    let isRefused = false
    let hasLeft = false

    const open = () => {
      const redis = connect()
      connection = redis
      connections.add(redis)
      const stopPinging = pingWhileOpen(redis)
      let isSubscribed = false
      const onSubscribed = () => {
        attempt = 0
        isRefused = false
        isSubscribed = true
        task(onConnectionChange)(true)
      }
      const onFailed = (error: unknown) => {
        if (!isRefused && redisFault(error).reason !== 'connection') {
          isRefused = true
          task(onRefused)(error)
        }
        redis.disconnect()
      }
      redis.on('error', () => {})
      redis.on('ready', () => void redis.subscribe(channel).then(onSubscribed, onFailed))
      redis.on('messageBuffer', (_channel, message: Buffer) => task(onMessage)(message))
      redis.once('end', () => {
        connections.delete(redis)
        stopPinging()
        if (hasLeft) return
        if (isSubscribed) task(onConnectionChange)(false)
        retry = setTimeout(task(open), delayMs(attempt++)).unref()
      })
    }
    open()
    return () => {
      hasLeft = true
      clearTimeout(retry)
      connection?.disconnect()
    }
  }

  return {
    subscribe,
    /** Ends these connections; each subscription begins anew, as after a loss. */
    renew(isLeft: (redis: Redis) => boolean) {
      for (const redis of connections) if (isLeft(redis)) redis.disconnect()
    }
  }
}

const pingWhileOpen = (redis: Redis): (() => void) => {
  let answered = true
  const ping = () => {
    if (redis.status !== 'ready') return
    if (!answered) return redis.disconnect()
    answered = false
    redis.ping().then(
      () => {
        answered = true
      },
      () => {}
    )
  }
  return every(PING_INTERVAL_MS, ping)
}
