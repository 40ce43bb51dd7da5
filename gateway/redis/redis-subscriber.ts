// Passes messages of Redis channels to their listeners, and tells them when it is disconnected and reconnected.

import type { Redis } from 'ioredis'
import { task } from '../values/contain.ts'

export interface ChannelSubscriber {
  /**
   * Listens to a channel until the returned function is called. `onConnectionChange(true)` is called after Redis has
   * confirmed the subscription, each time: earlier messages may have been missed. `false` follows when the connection ends.
   */
  subscribe(
    channel: string,
    onMessage: (message: Buffer) => void,
    onConnectionChange?: (connected: boolean) => void
  ): () => void
}

interface Listener {
  readonly channel: string
  readonly onMessage: (message: Buffer) => void
  readonly onConnectionChange: (connected: boolean) => void
  hears: boolean
}

/** A silent connection is detected within two of these. */
const PING_INTERVAL_MS = 1000

/**
 * @param connect opens one connection that does not reconnect by itself
 * @param delayMs how long to wait before the nth further attempt
 */
export const createSubscriber = (
  connect: () => Redis,
  delayMs: (attempt: number) => number
): ChannelSubscriber & { close(): void } => {
  const listeners = new Set<Listener>()
  let connection: Redis | undefined
  let retry: NodeJS.Timeout | undefined
  let attempt = 0
  let closed = false

  const tell = (listener: Listener, hears: boolean) => {
    if (listener.hears === hears) return
    listener.hears = hears
    task(listener.onConnectionChange)(hears)
  }

  const join = (redis: Redis, channel: string) =>
    redis.subscribe(channel).then(
      () => {
        if (redis !== connection) return
        attempt = 0
        for (const listener of listeners) if (listener.channel === channel) tell(listener, true)
      },
      () => redis.disconnect()
    )

  const open = () => {
    retry = undefined
    const redis = connect()
    connection = redis
    const stopPinging = pingWhileOpen(redis)
    redis.on('error', () => {})
    redis.on('ready', () => {
      for (const channel of new Set([...listeners].map(listener => listener.channel))) join(redis, channel)
    })
    redis.on('messageBuffer', (name: Buffer, message: Buffer) => {
      const channel = name.toString()
      for (const listener of listeners) if (listener.channel === channel) task(listener.onMessage)(message)
    })
    redis.once('end', () => {
      stopPinging()
      if (redis !== connection) return
      connection = undefined
      for (const listener of listeners) tell(listener, false)
      if (!closed && listeners.size > 0) retry = setTimeout(task(open), delayMs(attempt++)).unref()
    })
  }

  const leave = (listener: Listener) => {
    listeners.delete(listener)
    if (connection?.status !== 'ready' || [...listeners].some(other => other.channel === listener.channel)) return
    connection.unsubscribe(listener.channel).catch(() => {})
  }

  return {
    subscribe(channel, onMessage, onConnectionChange = () => {}) {
      const listener: Listener = { channel, onMessage, onConnectionChange, hears: false }
      listeners.add(listener)
      if (connection === undefined) {
        if (retry === undefined && !closed) open()
      } else if (connection.status === 'ready') join(connection, channel)
      return () => leave(listener)
    },
    close() {
      closed = true
      clearTimeout(retry)
      connection?.disconnect()
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
  const timer = setInterval(task(ping), PING_INTERVAL_MS).unref()
  return () => clearInterval(timer)
}
