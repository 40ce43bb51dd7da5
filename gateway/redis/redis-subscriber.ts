// Passes the messages of a Redis channel on, and tells when the subscription is lost and regained.
import type { Redis } from 'ioredis'
import { every, task } from '../values/contain.ts'

/**
 * Listens to a channel until the returned function is called. `onConnectionChange(true)` is called each time Redis has confirmed
 * the subscription: earlier messages may have been missed. `false` follows when the connection ends.
 */
export type Subscribe = (
  channel: string,
  onMessage: (message: Buffer) => void,
  onConnectionChange: (connected: boolean) => void
) => () => void

/** A silent connection is detected within two of these. */
const PING_INTERVAL_MS = 1000

/**
 * @param connect opens one connection that does not reconnect by itself
 * @param delayMs how long to wait before the nth further attempt
 */
export const createSubscribe = (connect: () => Redis, delayMs: (attempt: number) => number) => {
  const connections = new Set<Redis>()

  const subscribe: Subscribe = (channel, onMessage, onConnectionChange) => {
    let connection: Redis | undefined
    let retry: NodeJS.Timeout | undefined
    let attempt = 0
    let hasLeft = false

    const open = () => {
      const redis = connect()
      connection = redis
      connections.add(redis)
      const stopPinging = pingWhileOpen(redis)
      let isSubscribed = false
      const onSubscribed = () => {
        attempt = 0
        isSubscribed = true
        task(onConnectionChange)(true)
      }
      redis.on('error', () => {})
      redis.on('ready', () => void redis.subscribe(channel).then(onSubscribed, () => redis.disconnect()))
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
    /** Ends all connections; each subscription begins anew, as after a loss. */
    renew() {
      for (const redis of connections) redis.disconnect()
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
