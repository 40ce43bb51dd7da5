// Wraps Redis, in single, Sentinel or Cluster form, as a store whose commands either complete or fail in time.
// Keys and channels begin with REDIS_PREFIX, which the callers leave out.
import { hash } from 'node:crypto'
import { Cluster, Redis } from 'ioredis'
import type { RedisNode, RedisSettings } from '../settings/redis.ts'
import { every, task } from '../values/contain.ts'
import { endsConnection, type RedisFault, RedisTimeout, redisFault, within } from './redis-failure.ts'
import { createSubscribe } from './redis-subscriber.ts'

interface RedisLog {
  debug(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export type RedisStore = ReturnType<typeof openRedis>

const COMMAND_TIMEOUT_MS = 1000
/** So that one node of a Cluster that says nothing leaves time for what the others have said. */
const NODE_TIMEOUT_MS = 400
const CONNECT_TIMEOUT_MS = 1000
/** How long a server may take to close its side of a connection that we end. */
const DISCONNECT_TIMEOUT_MS = 100
/** A connection that leaves commands unanswered for this long is dead (a host that vanished sends no RST). */
const SILENCE_MS = 5000
/** A server that loads its data for longer than this may have been replaced by another one at the same address. */
const LOADING_MS = 5000
const LOADING_CHECK_MS = 1000
/** How often a Cluster is asked which node has which slots. */
const SLOTS_MS = 2000

/** Delay before the nth reconnection attempt: doubles up to one second, with jitter so that instances spread out. */
const reconnectDelayMs = (attempt: number): number =>
  Math.round(Math.min(1000, 5 * 2 ** Math.min(attempt, 8)) * (0.75 + Math.random() / 2))

/** Connects in the background, without giving up; never throws and never emits an unhandled error. */
export const openRedis = (settings: RedisSettings, log: RedisLog) => {
  const causes = createCauses()
  let hasLeft = false
  /** Of the Cluster, as last found; a node that is away may be among them. */
  let nodes: readonly RedisNode[] = []
  const endsClient = (error: Error) => {
    const ends = causes.endsConnection(error)
    hasLeft ||= ends
    return ends
  }
  const client = connect(settings, endsClient, () => nodes)
  const isReady = (): boolean => client.status === 'ready'
  const onError = (err: Error) => {
    causes.note(err)
    log.debug({ err }, 'redis connection error')
  }
  client.on('error', onError).on('node error', onError)
  reportSentinels(client, onError)
  endLongLoading(client)
  const leaves: (() => void)[] = []
  const { subscribe, renew } = createSubscribe(
    () => endLongLoading(connectSubscriber(settings, nodes)),
    reconnectDelayMs,
    err => log.warn({ err }, 'Redis refuses to let this process subscribe to its channel, so that others cannot ask it')
  )
  // A server that was left, such as a primary that was demoted, may keep the connections of subscribers open.
  client.on('ready', () => {
    if (hasLeft) renew(() => true)
    hasLeft = false
  })
  client.on('refresh', () => {
    const found = nodesOf(client)
    if (found.length > 0) nodes = found
  })
  client.on('+node', containAsking).on('+node', reportCopies(onError))
  const stopRefreshes = every(SLOTS_MS, () => refreshSlots(client))
  client.on('-node', ({ options: left }: Redis) =>
    renew(({ options }) => options.host === left.host && options.port === left.port)
  )
  const named = (name: string): string => settings.prefix + name
  const watched = watchSilence(client, causes.clear)
  const command = <T>(run: () => Promise<T>): Promise<T> => watched(run(), COMMAND_TIMEOUT_MS)

  /**
   * Runs a Lua script by its digest; sends its text once if the server does not know it (NOSCRIPT). All keys must be
   * in one slot. Rejects with `RedisTimeout` after `timeoutMs`, at once if there is no connection, and with
   * Redis's own error otherwise; a script that timed out may have run or may yet run.
   */
  const evalScript = (
    script: string,
    keys: readonly string[],
    args: readonly (string | number)[],
    timeoutMs: number
  ): Promise<unknown> => {
    const words = [...keys.map(named), ...args]
    const byDigest = client.evalsha(hash('sha1', script), keys.length, ...words)
    const either = byDigest.catch((error: unknown) => {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return client.eval(script, keys.length, ...words)
    })
    return watched(either, timeoutMs)
  }

  const connected = (): Promise<void> =>
    isReady() ? Promise.resolve() : new Promise(resolve => void client.once('ready', () => resolve()))

  /** A cluster client connects to a node when it first needs it; done here, so that no request waits for that. */
  const warm = () => Promise.all(client instanceof Cluster ? client.nodes('master').map(node => node.ping()) : [])

  /** Resolves to true once commands can be sent, to false if that took longer than `timeoutMs`. */
  const ready = (timeoutMs: number): Promise<boolean> =>
    within(connected().then(warm), timeoutMs).then(
      () => true,
      () => false
    )

  return {
    evalScript,
    /** Milliseconds since the epoch. */
    clock: async () => {
      const [seconds, microseconds] = await command(() => anyNode(client).time())
      return Number(seconds) * 1000 + Number(microseconds) / 1000
    },
    /** Resolves to the number of receivers; in a Cluster only of those at one node. */
    publish: (channel: string, message: string | Buffer) =>
      command(() => anyNode(client).publish(named(channel), message)),
    /** The rest of the names of all channels that begin with this and have subscribers. */
    channels: (beginning: string) => command(() => channelsOf(client, named(beginning), nodes.length)),
    subscribe(...[channel, ...listeners]: Parameters<typeof subscribe>) {
      const leave = subscribe(named(channel), ...listeners)
      leaves.push(leave)
      return leave
    },
    /** Names a rejection; where there is no connection, by what ended it or keeps it from being made. */
    failure: causes.of,
    isReady,
    ready,
    close: async () => {
      for (const leave of leaves) leave()
      stopRefreshes()
      client.disconnect()
    }
  }
}

/** Replaces `slotsRefreshInterval`, which in ioredis 5.11 never stops if the client is closed during a refresh. */
const refreshSlots = (client: Redis | Cluster): void => {
  if (client instanceof Cluster && client.status === 'ready') client.refreshSlotsCache()
}

/** At a redirection, ioredis 5.11 sends ASKING without a handler for its failure, which would end this process. */
const containAsking = (node: Redis) => {
  const ask = node.asking.bind(node)
  node.asking = () => {
    const asked = ask()
    asked.catch(() => undefined)
    return asked
  }
}

/** ioredis asks a node of a Cluster for its slots over a copy of the connection, whose errors it ignores. */
const reportCopies = (onError: (error: Error) => void) => (node: Redis) => {
  const duplicate = node.duplicate.bind(node)
  node.duplicate = options => duplicate(options).on('error', onError)
}

/** ioredis ignores the errors of the connections over which it asks Sentinels, but for the text of the last one. */
const reportSentinels = (client: Redis | Cluster, onError: (error: Error) => void) => {
  const connector: object = Reflect.get(client, 'connector') ?? {}
  const connectTo: unknown = Reflect.get(connector, 'connectToSentinel')
  if (typeof connectTo !== 'function') return
  const reporting = (...words: unknown[]): Redis => connectTo.apply(connector, words).on('error', onError)
  Reflect.set(connector, 'connectToSentinel', reporting)
}

/** Remembers why there is no connection until a command succeeds: commands that find none only say so. */
const createCauses = () => {
  let cause: RedisFault | undefined
  const loading = { since: 0, at: Number.NEGATIVE_INFINITY }

  const hasLoadedLong = (): boolean => {
    const now = performance.now()
    if (now - loading.at > 2 * LOADING_CHECK_MS) loading.since = now
    loading.at = now
    return now - loading.since >= LOADING_MS
  }

  return {
    note(error: Error): void {
      const fault = redisFault(error)
      if (fault.reason !== 'connection' || 'code' in error) cause = fault
    },
    clear: (): void => {
      cause = undefined
    },
    of: (error: unknown): RedisFault => {
      const fault = redisFault(error)
      return fault.reason === 'connection' || fault.reason === 'timeout' ? (cause ?? fault) : fault
    },
    /** For ioredis: whether the connection ends because of what a command was answered. */
    endsConnection: (error: Error): boolean => {
      const fault = redisFault(error)
      const isEnding = fault.reason === 'loading' ? hasLoadedLong() : endsConnection(fault.reason)
      if (isEnding) cause = fault
      return isEnding
    }
  }
}

/** While a server loads its data, ioredis waits on the connection that it has. */
const endLongLoading = <Client extends Redis | Cluster>(client: Client): Client => {
  const watch = (one: Redis) => {
    let timer: NodeJS.Timeout | undefined
    one.on('connect', () => {
      clearTimeout(timer)
      timer = setTimeout(
        task(() => one.status === 'connect' && one.disconnect(true)),
        LOADING_MS
      ).unref()
    })
    one.on('close', () => clearTimeout(timer))
  }
  if (client instanceof Cluster) client.on('+node', watch)
  else watch(client)
  return client
}

/** Nothing is queued while Redis is unavailable and nothing is sent twice: that is for the callers to decide, not the client. */
const common = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: CONNECT_TIMEOUT_MS,
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
  // Not socketTimeout: ioredis 5.11 does not clear its timer when a connection ends, and then destroys the next one.
  maxLoadingRetryTime: LOADING_CHECK_MS,
  keepAlive: 5000,
  disableClientInfo: true,
  connectionName: 'portaria'
} as const

const access = ({ username, password, tls, certificates }: RedisSettings) => ({
  ...(username === undefined ? {} : { username }),
  ...(password === undefined ? {} : { password }),
  ...(tls ? { tls: certificates } : {})
})

type EndsConnection = (error: Error) => boolean

const connect = (
  settings: RedisSettings,
  reconnectOnError: EndsConnection,
  lastNodes: () => readonly RedisNode[]
): Redis | Cluster => {
  if (settings.kind !== 'cluster') return connectOne(settings, reconnectDelayMs, reconnectOnError)
  const startupNodes: RedisNode[] = [...settings.nodes]
  return new Cluster(startupNodes, {
    enableOfflineQueue: false,
    // The nodes that the settings name may all have been replaced since the start.
    clusterRetryStrategy: attempt => {
      const nodes = attempt % 2 === 0 ? lastNodes() : []
      startupNodes.splice(0, startupNodes.length, ...(nodes.length > 0 ? nodes : settings.nodes))
      return reconnectDelayMs(attempt)
    },
    // Certificates are for names, and one name that cannot be resolved must not keep the client from the other nodes.
    dnsLookup: (name, done) => done(null, name),
    // Redirections are followed; everything else is reported at once, and the topology is refreshed automatically.
    maxRedirections: 4,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 5,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    redisOptions: { ...common, ...access(settings), reconnectOnError }
  })
}

const nodesOf = (client: Redis | Cluster): RedisNode[] =>
  client instanceof Cluster
    ? client.nodes('all').map(({ options: { host = '', port = 6379 } }) => ({ host, port }))
    : []

const connectOne = (
  settings: Exclude<RedisSettings, { kind: 'cluster' }>,
  retryStrategy: ((attempt: number) => number) | null,
  reconnectOnError: EndsConnection | null
): Redis => {
  const { db } = settings
  const options = { ...common, ...access(settings), db, retryStrategy, reconnectOnError }
  if (settings.kind === 'unix') return new Redis({ ...options, path: settings.path })
  if (settings.kind === 'single') return new Redis({ ...options, host: settings.host, port: settings.port })
  const { sentinels, name, sentinelUsername, sentinelPassword, tls, certificates } = settings
  return new Redis({
    ...options,
    sentinels: [...sentinels],
    name,
    ...(sentinelUsername === undefined ? {} : { sentinelUsername }),
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: certificates } : {}),
    sentinelRetryStrategy: reconnectDelayMs,
    // One that accepts connections and says nothing is left for the next one.
    sentinelCommandTimeout: COMMAND_TIMEOUT_MS
  })
}

/** One connection that is not reopened when it breaks; in a cluster any node will do, because it relays to all others. */
const connectSubscriber = (settings: RedisSettings, nodes: readonly RedisNode[]): Redis => {
  if (settings.kind !== 'cluster') return connectOne(settings, null, null)
  return new Redis({
    ...common,
    ...access(settings),
    ...oneOf(nodes.length > 0 ? nodes : settings.nodes),
    retryStrategy: null
  })
}

const oneOf = <T>(all: readonly T[]): T | undefined => all[Math.floor(Math.random() * all.length)]

/** For what any node of a Cluster can do. One that is away may still be listed. */
const anyNode = (client: Redis | Cluster): Redis | Cluster =>
  client instanceof Cluster ? (oneOf(client.nodes('all').filter(({ status }) => status === 'ready')) ?? client) : client

/**
 * In a Cluster, each node knows its own subscribers: those of one that cannot be asked are left out, and `failure` says why.
 * Rejects if none can be asked.
 * @param listed the number of nodes that the Cluster is known to have
 */
const channelsOf = async (client: Redis | Cluster, prefix: string, listed: number) => {
  const ask = (node: Redis) => node.pubsub('CHANNELS', `${prefix}*`) as Promise<string[]>
  if (!(client instanceof Cluster)) return { names: (await ask(client)).map(name => name.slice(prefix.length)) }
  const asked = client.nodes('all').map(node => within(ask(node), NODE_TIMEOUT_MS))
  const failures: unknown[] = asked.length < Math.max(1, listed) ? [new Error('a connection is closed')] : []
  const answers = (await Promise.allSettled(asked)).flatMap(one => {
    if (one.status === 'fulfilled') return [one.value]
    failures.push(one.reason)
    return []
  })
  if (answers.length === 0) throw failures[0]
  const names = answers.flat().map(name => name.slice(prefix.length))
  return failures.length === 0 ? { names } : { names, failure: failures[0] }
}

/** Ends connections on which a command has gone unanswered for too long; without commands, a connection is not silent. */
const watchSilence = (client: Redis | Cluster, onReply: () => void) => {
  const unanswered = new Set<{ readonly since: number }>()
  const endSilent = () => {
    const [oldest] = unanswered
    if (oldest === undefined || performance.now() - oldest.since < SILENCE_MS) return
    if (client instanceof Cluster) for (const node of client.nodes('all')) node.disconnect()
    else client.disconnect(true)
  }
  return <T>(reply: Promise<T>, timeoutMs: number): Promise<T> => {
    const command = { since: performance.now() }
    unanswered.add(command)
    const settle = () => unanswered.delete(command)
    reply.then(onReply, () => {}).finally(settle)
    return within(reply, timeoutMs).catch((error: unknown) => {
      if (error instanceof RedisTimeout) endSilent()
      throw error
    })
  }
}
