// Each upstream keeps warm connections to its targets, chooses between them, and lets go of what is idle or too slow.
import type { RouteTable, Target, Upstream } from '../routes/route.ts'
import { connectUpstream, type UpstreamConnection } from './upstream-connection.ts'

const SWEEP_MS = 100
const MAX_CONNECTIONS_PER_TARGET = 8192
const MAX_IDLE_PER_TARGET = 256

/** One target's connections. */
interface TargetPool {
  readonly target: Target
  readonly idle: UpstreamConnection[]
  /** Open connections, busy and idle. */
  readonly open: Set<UpstreamConnection>
  closing: boolean
}

export interface UpstreamPool {
  /** A connection to the next target, or to the one given; undefined when it has all the connections it may have. */
  acquire(only?: Target): UpstreamConnection | undefined
  /** Idle connections close now, busy ones when they become free. */
  drain(): void
  readonly targets: number
}

export interface Upstreams {
  poolOf(upstream: Upstream): UpstreamPool
  /** Drains the pools of upstreams that the table no longer names; the others stay warm. */
  retain(table: RouteTable): void
  /** Open upstream connections, busy and idle. */
  connections(): number
  close(): void
}

const createTargetPool = (upstream: Upstream, target: Target, now: () => number) => {
  const pool: TargetPool = { target, idle: [], open: new Set(), closing: false }
  const events = {
    now,
    onFree(connection: UpstreamConnection) {
      if (pool.closing || pool.idle.length >= MAX_IDLE_PER_TARGET) return connection.destroy()
      pool.idle.push(connection)
    },
    onClosed(connection: UpstreamConnection) {
      pool.open.delete(connection)
      const at = pool.idle.indexOf(connection)
      if (at !== -1) pool.idle.splice(at, 1)
    }
  }
  const busy = () => pool.open.size - pool.idle.length
  const acquire = (): UpstreamConnection | undefined => {
    const warm = pool.idle.pop()
    if (warm !== undefined) return warm
    if (pool.open.size >= MAX_CONNECTIONS_PER_TARGET) return undefined
    const connection = connectUpstream(upstream, target, events)
    pool.open.add(connection)
    return connection
  }
  const sweep = (at: number) => {
    for (const connection of pool.open) if (connection.deadline <= at) connection.expire()
  }
  const drain = () => {
    pool.closing = true
    for (const connection of [...pool.idle]) connection.destroy()
  }
  const destroy = () => {
    pool.closing = true
    for (const connection of [...pool.open]) connection.destroy()
  }
  return { pool, busy, acquire, sweep, drain, destroy }
}

const createPool = (upstream: Upstream, now: () => number) => {
  const members = upstream.targets.map(target => createTargetPool(upstream, target, now))
  let turn = 0
  // Fewest requests under way wins; equals take turns.
  const acquire = (only?: Target): UpstreamConnection | undefined => {
    const [first] = members
    if (members.length === 1 && first !== undefined) return first.acquire()
    if (only !== undefined) return members.find(({ pool }) => pool.target.url === only.url)?.acquire()
    turn = (turn + 1) % members.length
    let best = members[turn]
    for (let i = 1; i < members.length; i++) {
      const other = members[(turn + i) % members.length]
      if (other !== undefined && best !== undefined && other.busy() < best.busy()) best = other
    }
    return best?.acquire()
  }
  return {
    acquire,
    targets: members.length,
    connections: () => members.reduce((sum, member) => sum + member.pool.open.size, 0),
    sweep: (at: number) => {
      for (const member of members) member.sweep(at)
    },
    drain: () => {
      for (const member of members) member.drain()
    },
    destroy: () => {
      for (const member of members) member.destroy()
    }
  }
}

export const createUpstreams = (now: () => number = () => performance.now()): Upstreams => {
  const pools = new Map<Upstream, ReturnType<typeof createPool>>()
  const draining = new Set<ReturnType<typeof createPool>>()

  const sweep = () => {
    const at = now()
    for (const pool of pools.values()) pool.sweep(at)
    for (const pool of draining) {
      pool.sweep(at)
      if (pool.connections() === 0) draining.delete(pool)
    }
  }
  const timer = setInterval(sweep, SWEEP_MS)
  timer.unref()

  return {
    poolOf(upstream) {
      const known = pools.get(upstream)
      if (known !== undefined) return known
      const pool = createPool(upstream, now)
      pools.set(upstream, pool)
      return pool
    },
    retain(table) {
      const kept = new Set(table.upstreams.values())
      for (const [upstream, pool] of pools) {
        if (kept.has(upstream)) continue
        pools.delete(upstream)
        pool.drain()
        draining.add(pool)
      }
    },
    connections: () => [...pools.values(), ...draining].reduce((sum, pool) => sum + pool.connections(), 0),
    close() {
      clearInterval(timer)
      for (const pool of [...pools.values(), ...draining]) pool.destroy()
      pools.clear()
      draining.clear()
    }
  }
}
