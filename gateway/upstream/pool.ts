// Keeps the connections to one target: reuses warm ones, limits their number, and closes those that are idle, too old or too slow.
import net from 'node:net'
import type { Target, Upstream } from '../routes/upstream.ts'
import { contain, task } from '../values/contain.ts'
import { seldom } from '../values/throttled-log.ts'
import { type ProbeContext, probeOf } from './checks.ts'
import { type Client, UpstreamConnection } from './connection.ts'
import { type TargetHealth, watchTarget } from './health.ts'

/** Of a target, for plain requests, where nothing is configured; streams are in addition. */
const MOST_CONNECTIONS = 8192
/** The part of these that requests of one client address may hold, of which HTTP/2 carries a hundred on each connection. */
const MOST_OF_ADDRESS = MOST_CONNECTIONS / 4
/** Event streams and long polls of a target. */
export const STREAMS_PER_TARGET = 16_384
/** Connections end after this time, because the name may have another address by now; new ones look it up again. */
const MAX_AGE_MS = 20_000
const DOUBTFUL_IDLE_MS = 1000

const HTTP2_ONLY =
  'an upstream target speaks HTTP/2 only: its requests fail, since the gateway uses HTTP/1.1 towards backends'

const UNASKED =
  'an upstream target sent bytes that no request asked for, perhaps because it takes unread bodies for requests: its connections are not ' +
  'shared by clients for a minute, and are closed after each request with a body from now on'

/** What a request needs of a connection. */
export interface Wanted {
  /** The client connection that it came on: another one shares an upstream connection with it only if that is safe. */
  readonly client?: Client | undefined
  /** The address of the client; undefined: its requests are counted elsewhere. */
  readonly clientKey?: string | undefined
  /** Its connection is that of a proxy, and carries requests of many clients. */
  readonly isOfProxy?: boolean | undefined
  /** It counts as a stream, which leaves plain requests their connections. */
  readonly isStream?: boolean | undefined
}

/**
 * Whether a warm connection is used only after one turn of the event loop, in which what has arrived becomes known: a close, which is
 * likely after some time, or bytes that would be taken for the response. A head alone waits for the end of the turn anyway.
 */
export const mustBeRead = ({ idleSince }: UpstreamConnection, hasBody: boolean): boolean =>
  idleSince > 0 && (hasBody || performance.now() - idleSince > DOUBTFUL_IDLE_MS)

/** Where a target belongs, in the route table in use. */
export interface Membership {
  readonly upstream: Upstream
  readonly target: Target
  /** Whether the upstream has another target in service. */
  readonly hasOther: (health: TargetHealth) => boolean
  /** A connection has become free, or the target has come back into service. */
  readonly onRoom: () => void
}

/** How connections are opened, and targets checked. */
export interface Dialling {
  connect(...parts: ConstructorParameters<typeof UpstreamConnection>): UpstreamConnection
  probe: typeof probeOf
}

export const DIALLING: Dialling = { connect: (...parts) => new UpstreamConnection(...parts), probe: probeOf }

export interface PoolParts extends ProbeContext {
  readonly dialling: Dialling
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void } | undefined
}

export type TargetPool = ReturnType<typeof createTargetPool>

export const createTargetPool = (first: Membership, parts: PoolParts) => {
  const { now, log, dialling } = parts
  let member = first
  /** Under which sessions may know the target: it is the same one, but its name had another number of addresses. */
  let formerUrl: string | undefined
  /** Busy and idle. */
  const open = new Set<UpstreamConnection>()
  /** The part of `open` that carries streams. */
  const streams = new Set<UpstreamConnection>()
  /** How many connections carry plain requests of each client address. */
  const held = new Map<string, number>()
  /** Connections that carry another protocol by now. */
  let sockets = 0
  let isClosing = false
  const isNamed = first.target.socketPath === undefined && net.isIP(first.target.host) === 0
  const idle = createIdleConnections(now, isNamed ? MAX_AGE_MS : Number.POSITIVE_INFINITY)

  const fields = () => ({ upstream: member.upstream.name, target: member.target.url })
  const warn = (message: string) => seldom(() => log?.warn(fields(), message), now)
  const health: TargetHealth = watchTarget({
    probe: done => dialling.probe(member.upstream, member.target, parts)(done),
    settings: () => ({ checks: member.upstream.healthCheck, outlier: member.upstream.outlier }),
    hasOther: () => member.hasOther(health),
    now,
    onChange(state, reason) {
      if (state === 'down') log?.warn({ ...fields(), reason }, 'an upstream target is down')
      else log?.info({ ...fields(), reason }, 'an upstream target is up again')
      member.onRoom()
    }
  })

  const hold = (connection: UpstreamConnection, address: string | undefined) => {
    connection.heldBy = address
    if (address !== undefined) held.set(address, (held.get(address) ?? 0) + 1)
  }
  /** It carries neither a plain request nor a stream. */
  const release = (connection: UpstreamConnection) => {
    streams.delete(connection)
    const { heldBy } = connection
    connection.heldBy = undefined
    if (heldBy === undefined) return
    const left = (held.get(heldBy) ?? 0) - 1
    if (left > 0) held.set(heldBy, left)
    else held.delete(heldBy)
  }

  const sayUnasked = warn(UNASKED)
  const events = {
    now,
    onStream(connection: UpstreamConnection) {
      release(connection)
      streams.add(connection)
    },
    onFree(connection: UpstreamConnection) {
      release(connection)
      if (isClosing || !idle.add(connection)) return connection.destroy()
      member.onRoom()
    },
    onClosed(connection: UpstreamConnection) {
      open.delete(connection)
      release(connection)
      idle.remove(connection)
      member.onRoom()
    },
    onSwitched(connection: UpstreamConnection, socket: Pick<net.Socket, 'once'>) {
      open.delete(connection)
      release(connection)
      sockets++
      health.answered(101, connection.openedAt)
      socket.once('close', leaveSocket)
    },
    onAnswer: (connection: UpstreamConnection, status: number) => health.answered(status, connection.openedAt),
    onFault: health.failed,
    onHttp2: warn(HTTP2_ONLY),
    hasUnasked: false,
    onUnasked() {
      events.hasUnasked = true
      idle.noteUnasked()
      sayUnasked()
    }
  }

  /** Connections with a request in progress. */
  const busy = () => open.size - idle.count()
  const most = () => member.upstream.maxConnections ?? Number.POSITIVE_INFINITY
  /** Closes connections that carry nothing until at most so many are open. */
  const closeIdleDownTo = (limit: number) => {
    if (open.size + sockets <= limit) return
    for (const connection of idle.all()) {
      if (open.size + sockets <= limit) return
      connection.destroy()
    }
  }
  const dialled = (): UpstreamConnection => {
    closeIdleDownTo(most() - 1)
    const connection = dialling.connect(member.upstream, member.target, events)
    open.add(connection)
    return connection
  }
  const close = () => {
    isClosing = true
    health.close()
  }

  const leaveSocket = task(() => {
    sockets--
    member.onRoom()
  })

  const hasRoom = ({ clientKey = '', isStream = false }: Wanted): boolean => {
    const { maxConnections } = member.upstream
    if (maxConnections !== undefined) return busy() + sockets < maxConnections
    if (isStream) return streams.size < STREAMS_PER_TARGET
    return busy() - streams.size < MOST_CONNECTIONS && (held.get(clientKey) ?? 0) < MOST_OF_ADDRESS
  }

  return {
    get target() {
      return member.target
    },
    health,
    busy,
    hasRoom,
    hasBound: idle.hasBound,
    connections: () => open.size,
    isAt: (url: string | undefined): boolean => url !== undefined && (url === member.target.url || url === formerUrl),
    /** A later route table has the same target: its connections and its health stay. */
    join(next: Membership): void {
      const { upstream, target } = member
      if (target.url !== next.target.url) formerUrl = target.url
      member = next
      closeIdleDownTo(most())
      if (JSON.stringify(upstream.healthCheck) !== JSON.stringify(next.upstream.healthCheck)) health.resettle()
    },
    /** undefined: there is no room. */
    acquire(wanted: Wanted): UpstreamConnection | undefined {
      if (!hasRoom(wanted)) return undefined
      const { client, clientKey, isOfProxy = false, isStream } = wanted
      const connection = idle.take(client, clientKey) ?? dialled()
      connection.client = client
      connection.clientKey = clientKey
      connection.isOfProxy = isOfProxy
      connection.upstream = member.upstream
      connection.target = member.target
      if (isStream) streams.add(connection)
      else hold(connection, clientKey)
      return connection
    },
    /** A new connection, for a request to switch protocols; undefined: the target is full. */
    dial(): UpstreamConnection | undefined {
      if (!hasRoom({ isStream: true })) return undefined
      const connection = dialled()
      streams.add(connection)
      return connection
    },
    /** Closes what is past its deadline. */
    sweep(at: number): void {
      for (const connection of open) if (connection.deadline <= at) contain(connection, late => late.expire())
      for (const connection of idle.orphans()) connection.destroy()
    },
    /** Gives requests in progress more time. */
    postpone(ms: number): void {
      // An idle connection keeps its deadline: the other side closes it by its own clock.
      const kept = new Set(idle.all())
      for (const connection of open) if (!kept.has(connection)) connection.deadline += ms
    },
    /** Stops the checks, and closes idle connections now, busy ones when they become free. */
    drain(): void {
      close()
      for (const connection of idle.all()) connection.destroy()
    },
    destroy(): void {
      close()
      for (const connection of [...open]) connection.destroy()
    },
    status: () => ({
      url: member.target.url,
      ...health.status(),
      busy: busy(),
      connections: open.size
    })
  }
}

/** Within QUIET_MS, 20,000 requests per second of many clients leave a thousand: with fewer places, most would be closed and opened again. */
const MAX_IDLE = 2048
/** What a backend sends behind a response although no request asked for it arrives within this time. */
const QUIET_MS = 50
const NOT_SHARED_MS = 60_000

/** @param maxAgeMs a connection that was opened before that is not used again */
const createIdleConnections = (now: () => number, maxAgeMs: number) => {
  const idle: UpstreamConnection[] = []
  let sharedAgainAt = Number.NEGATIVE_INFINITY

  /** Another client may use it: a late second response would be taken for the response to its request. */
  const isSharable = ({ isBound, idleSince }: UpstreamConnection, at: number): boolean =>
    !isBound && at - idleSince >= QUIET_MS && at >= sharedAgainAt

  return {
    count: () => idle.length,
    /** In the order in which to close them: the oldest first, and those that are bound last, which may be in the middle of a login. */
    all: (): readonly UpstreamConnection[] => idle.toSorted((a, b) => Number(a.isBound) - Number(b.isBound)),
    /** Returns whether it is kept. */
    add(connection: UpstreamConnection): boolean {
      const { client, isOfProxy, isBound, openedAt } = connection
      if (idle.length >= MAX_IDLE || (isBound && (client === undefined || isOfProxy))) return false
      // A bound connection lives as long as its client's.
      connection.deadline = isBound ? Number.POSITIVE_INFINITY : Math.min(connection.deadline, openedAt + maxAgeMs)
      if (connection.deadline <= now()) return false
      idle.push(connection)
      return true
    },
    remove(connection: UpstreamConnection): void {
      const at = idle.indexOf(connection)
      if (at !== -1) idle.splice(at, 1)
    },
    /** The connection that this client used last, or else the one that others used last. */
    take(client: Client | undefined, clientKey: string | undefined): UpstreamConnection | undefined {
      const at = now()
      const isOwn = (one: UpstreamConnection) =>
        client !== undefined && one.client === client && one.clientKey === clientKey && one.deadline > at
      const own = idle.findLastIndex(isOwn)
      const found = own === -1 ? idle.findLastIndex(one => one.deadline > at && isSharable(one, at)) : own
      return found === -1 ? undefined : idle.splice(found, 1)[0]
    },
    /** Whether a connection is bound to this client. */
    hasBound: (client: Client): boolean => idle.some(connection => connection.isBound && connection.client === client),
    /** The target has sent what no request asked for. */
    noteUnasked(): void {
      sharedAgainAt = now() + NOT_SHARED_MS
    },
    /** Those whose client has gone. */
    orphans: (): UpstreamConnection[] => idle.filter(({ isBound, client }) => isBound && client?.isOpen !== true)
  }
}
