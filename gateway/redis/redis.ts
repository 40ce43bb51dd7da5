// Wraps Redis, in single, Sentinel or Cluster form, as a store whose commands either complete or fail in time.
import { createHash } from 'node:crypto'
import { Cluster, Redis } from 'ioredis'
import type { Logger } from 'pino'
import type { RedisSettings } from '../settings/redis-url.ts'
import { boundedMap } from '../values/bounded-map.ts'
import { RedisTimeout, within } from './redis-failure.ts'
import { createSubscriber, type Subscribe } from './redis-subscriber.ts'

export interface RedisStore {
  /**
   * Runs a Lua script by its digest; sends its text once if the server does not know it (NOSCRIPT). All keys must be
   * in one slot. Rejects with {@link RedisTimeout} after `timeoutMs`, at once if there is no connection, and with
   * Redis's own error otherwise; a script that timed out may have run or may yet run.
   */
  evalScript(
    script: string,
    keys: readonly string[],
    args: readonly (string | number)[],
    timeoutMs: number
  ): Promise<unknown>
  get(key: string): Promise<string | null>
  set(key: string, value: string, ttlMs: number): Promise<void>
  /** Resolves to the number of receivers; in a Cluster only of those at one node. */
  publish(channel: string, message: string | Buffer): Promise<number>
  /** How many connections have subscribed to each of the channels. */
  receivers(channels: readonly string[]): Promise<number[]>
  readonly subscribe: Subscribe
  isReady(): boolean
  /** Resolves to true once commands can be sent, to false if that took longer than `timeoutMs`. */
  ready(timeoutMs: number): Promise<boolean>
  close(): Promise<void>
}

const COMMAND_TIMEOUT_MS = 1000
const CONNECT_TIMEOUT_MS = 1000
/** A connection that is silent for this long despite pending commands is dead (a host that vanished sends no RST). */
const SILENCE_MS = 5000

/** Delay before the nth reconnection attempt: doubles up to one second, with jitter so that instances spread out. */
const reconnectDelayMs = (attempt: number): number =>
  Math.round(Math.min(1000, 25 * 2 ** Math.min(attempt, 6)) * (0.75 + Math.random() / 2))

/** Connects in the background, without giving up; never throws and never emits an unhandled error. */
export const openRedis = (settings: RedisSettings, log: Pick<Logger, 'debug'>): RedisStore => {
  const client = connect(settings)
  const isReady = (): boolean => client.status === 'ready'
  client.on('error', error => log.debug({ err: error }, 'redis connection error'))
  if (client instanceof Cluster) client.on('node error', error => log.debug({ err: error }, 'redis node error'))
  const subscriber = createSubscriber(() => connectSubscriber(settings, client), reconnectDelayMs)
  const watched = watchSilence(client)
  const command = <T>(run: () => Promise<T>, timeoutMs = COMMAND_TIMEOUT_MS): Promise<T> => watched(run(), timeoutMs)

  const evalScript: RedisStore['evalScript'] = (script, keys, args, timeoutMs) => {
    const byDigest = client.evalsha(digestOf(script), keys.length, ...keys, ...args)
    const either = byDigest.catch((error: unknown) => {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return client.eval(script, keys.length, ...keys, ...args)
    })
    return watched(either, timeoutMs)
  }

  const connected = (): Promise<void> =>
    isReady() ? Promise.resolve() : new Promise(resolve => void client.once('ready', () => resolve()))

  /** A cluster client connects to a node when it first needs it; done here, so that no request waits for that. */
  const warm = () => Promise.all(client instanceof Cluster ? client.nodes('master').map(node => node.ping()) : [])

  const ready = (timeoutMs: number): Promise<boolean> =>
    within(connected().then(warm), timeoutMs).then(
      () => true,
      () => false
    )

  return {
    evalScript,
    get: key => command(() => client.get(key)),
    set: async (key, value, ttlMs) => void (await command(() => client.set(key, value, 'PX', ttlMs))),
    publish: (channel, message) => command(() => client.publish(channel, message)),
    receivers: channels => command(() => receiversOf(client, channels)),
    subscribe: subscriber.subscribe,
    isReady,
    ready,
    close: async () => {
      subscriber.close()
      client.disconnect()
    }
  }
}

const digests = boundedMap<string, string>(64)

const digestOf = (script: string): string => {
  const known = digests.get(script)
  if (known !== undefined) return known
  const digest = createHash('sha1').update(script).digest('hex')
  digests.set(script, digest)
  return digest
}

/** Nothing is queued while Redis is unavailable and nothing is sent twice: that is for the callers to decide, not the client. */
const common = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: CONNECT_TIMEOUT_MS,
  keepAlive: 5000,
  disableClientInfo: true,
  connectionName: 'portaria'
} as const

const access = ({ username, password, tls }: RedisSettings) => ({
  ...(username === undefined ? {} : { username }),
  ...(password === undefined ? {} : { password }),
  ...(tls ? { tls: {} } : {})
})

const connect = (settings: RedisSettings): Redis | Cluster => {
  if (settings.kind !== 'cluster') return connectOne(settings, reconnectDelayMs)
  return new Cluster([...settings.nodes], {
    enableOfflineQueue: false,
    clusterRetryStrategy: reconnectDelayMs,
    // Redirections are followed; everything else is reported at once, and the topology is refreshed automatically.
    maxRedirections: 4,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 5,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    slotsRefreshInterval: 2000,
    redisOptions: { ...common, ...access(settings) }
  })
}

const connectOne = (
  settings: Exclude<RedisSettings, { kind: 'cluster' }>,
  retryStrategy: ((attempt: number) => number) | null
): Redis => {
  const { db } = settings
  const options = { ...common, ...access(settings), db, retryStrategy }
  if (settings.kind === 'single') return new Redis({ ...options, host: settings.host, port: settings.port })
  const { sentinels, name, sentinelUsername, sentinelPassword, tls } = settings
  return new Redis({
    ...options,
    sentinels: [...sentinels],
    name,
    ...(sentinelUsername === undefined ? {} : { sentinelUsername }),
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
    sentinelRetryStrategy: reconnectDelayMs
  })
}

/** One connection that is not reopened when it breaks; in a cluster any node will do, because it relays to all others. */
const connectSubscriber = (settings: RedisSettings, client: Redis | Cluster): Redis => {
  if (settings.kind !== 'cluster') return connectOne(settings, null)
  const known = client instanceof Cluster ? client.nodes('all').map(node => node.options) : []
  const nodes = known.length > 0 ? known : settings.nodes
  const { host, port } = nodes[Math.floor(Math.random() * nodes.length)] ?? {}
  return new Redis({
    ...common,
    ...access(settings),
    host: host ?? '127.0.0.1',
    port: port ?? 6379,
    retryStrategy: null
  })
}

const receiversOf = async (client: Redis | Cluster, channels: readonly string[]): Promise<number[]> => {
  const nodes = client instanceof Cluster ? client.nodes('all') : [client]
  // Of each node: the channels, each followed by its count.
  const counts = await Promise.all(nodes.map(node => node.pubsub('NUMSUB', ...channels)))
  return channels.map((_, index) => counts.reduce((sum, ofNode) => sum + Number(ofNode[2 * index + 1]), 0))
}

const watchSilence = (client: Redis | Cluster) => {
  let heardAt = performance.now()
  const heard = () => {
    heardAt = performance.now()
  }
  client.on('ready', heard)
  const renew = () => {
    if (performance.now() - heardAt < SILENCE_MS) return
    heard()
    if (client instanceof Cluster) for (const node of client.nodes('all')) node.disconnect()
    else client.disconnect(true)
  }
  return <T>(reply: Promise<T>, timeoutMs: number): Promise<T> => {
    reply.then(heard, () => {})
    return within(reply, timeoutMs).catch((error: unknown) => {
      if (error instanceof RedisTimeout) renew()
      throw error
    })
  }
}
