// Selects the best target of an upstream for each request, and keeps warm connections to all of them.
import type { RouteTable } from '../routes/route.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { task } from '../values/contain.ts'
import { probeOf } from './checks.ts'
import type { UpstreamConnection } from './connection.ts'
import { type TargetHealthStatus, watchTarget } from './health.ts'
import { createTargetPool, type TargetPool } from './pool.ts'

const SWEEP_MS = 100
/** By which a sweep must be late to count as one after a standstill. */
const STANDSTILL_MS = 100
const SAID_AGAIN_MS = 60_000
const HTTP2_ONLY =
  'an upstream target speaks HTTP/2 only: its requests fail, since the gateway uses HTTP/1.1 towards backends'

const UNASKED =
  'an upstream target sent more than was asked of it, as it does if it leaves the body of a request unread and takes it for the next ' +
  'request: connections to it are now closed after each forwarded request with a body'

interface UpstreamPool {
  /**
   * A connection to the healthiest target, to none of `not` while there are others, or to the given `only` one; undefined if
   * it has reached its limit of connections.
   */
  acquire(only?: Target, not?: readonly Target[], isStream?: boolean): UpstreamConnection | undefined
  /** Closes idle connections now, busy ones when they become free. */
  drain(): void
  readonly targets: number
}

interface TargetStatus extends TargetHealthStatus {
  readonly url: string
  /** Connections with a request in progress. */
  readonly busy: number
  readonly connections: number
}

export interface UpstreamStatus {
  readonly name: string
  readonly targets: readonly TargetStatus[]
}

export interface Upstreams {
  poolOf(upstream: Upstream): UpstreamPool
  /** Watches the table's upstreams, and drains the pools of those that it no longer contains; the others stay warm. */
  retain(table: RouteTable): void
  /** Open upstream connections, busy and idle. */
  connections(): number
  /** For the upstreams in use. */
  status(): UpstreamStatus[]
  /** Whether some upstream has no target in service. */
  hasDown(): boolean
  close(): void
}

interface UpstreamsOptions {
  /** Monotonic ms. */
  readonly now?: () => number
  readonly log?: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
}

/** The fewest requests in progress win, equals take turns; targets that are out or not fully back are skipped. */
const createChoice = (members: readonly TargetPool[]) => {
  let turn = 0
  const at = (i: number): TargetPool | undefined => members[(turn + i) % members.length]

  // There is always a choice: a target that is returning, one that is out, or the same one again.
  const lastResort = (not: readonly Target[]): TargetPool | undefined => {
    const inTurn = members.map((_, i) => at(i)).filter(member => member !== undefined)
    const untried = inTurn.filter(({ target }) => !not.includes(target))
    return untried.find(({ health }) => !health.isOut) ?? untried[0] ?? inTurn[0]
  }

  return (not: readonly Target[]): TargetPool | undefined => {
    turn = (turn + 1) % members.length
    let best: TargetPool | undefined
    for (let i = 0; i < members.length; i++) {
      const member = at(i)
      if (member === undefined || member.health.isOut || (not.length > 0 && not.includes(member.target))) continue
      if (!member.health.takesTurn()) continue
      if (best === undefined || member.busy() < best.busy()) best = member
    }
    return best ?? lastResort(not)
  }
}

const NONE: readonly Target[] = []

const createPool = (upstream: Upstream, now: () => number, log: UpstreamsOptions['log']) => {
  const members = upstream.targets.map(target => {
    const health = watchTarget(target, {
      probe: probeOf(upstream, target, now),
      checkEveryMs: upstream.healthCheck?.intervalMs,
      now,
      onChange(state, reason) {
        const fields = { upstream: upstream.name, target: target.url, reason }
        if (state === 'down') log?.warn(fields, 'an upstream target is down')
        else log?.info(fields, 'an upstream target is up again')
      }
    })
    const warn = (message: string) => {
      let saidAt = Number.NEGATIVE_INFINITY
      return () => {
        if (now() - saidAt < SAID_AGAIN_MS) return
        saidAt = now()
        log?.warn({ upstream: upstream.name, target: target.url }, message)
      }
    }
    return createTargetPool(upstream, target, health, now, { onHttp2: warn(HTTP2_ONLY), onUnasked: warn(UNASKED) })
  })
  const choose = createChoice(members)
  const [first] = members
  const single = members.length === 1 ? first : undefined
  return {
    acquire(only?: Target, not: readonly Target[] = NONE, isStream = false): UpstreamConnection | undefined {
      if (single !== undefined) return single.acquire(isStream)
      if (only !== undefined) return members.find(({ target }) => target.url === only.url)?.acquire(isStream)
      return choose(not)?.acquire(isStream)
    },
    targets: members.length,
    connections: () => members.reduce((sum, member) => sum + member.connections(), 0),
    isDown: () => members.every(({ health }) => health.isOut),
    status: (): UpstreamStatus => ({
      name: upstream.name,
      targets: members.map(({ target, health, busy, connections }) => ({
        url: target.url,
        ...health.status(),
        busy: busy(),
        connections: connections()
      }))
    }),
    sweep: (at: number) => {
      for (const member of members) member.sweep(at)
    },
    postpone: (ms: number) => {
      for (const member of members) member.postpone(ms)
    },
    drain: () => {
      for (const member of members) member.drain()
    },
    destroy: () => {
      for (const member of members) member.destroy()
    }
  }
}

export const createUpstreams = (options: UpstreamsOptions = {}): Upstreams => {
  const { now = () => performance.now(), log } = options
  const pools = new Map<Upstream, ReturnType<typeof createPool>>()
  const draining = new Set<ReturnType<typeof createPool>>()

  let sweptAt = performance.now()
  // While this process stood still it read nothing: that is no silence of a target.
  const forgiveStandstill = () => {
    const lateMs = performance.now() - sweptAt - SWEEP_MS
    sweptAt = performance.now()
    if (lateMs < STANDSTILL_MS) return
    for (const pool of [...pools.values(), ...draining]) pool.postpone(lateMs)
  }

  const sweep = () => {
    forgiveStandstill()
    const at = now()
    for (const pool of pools.values()) pool.sweep(at)
    for (const pool of draining) {
      pool.sweep(at)
      if (pool.connections() === 0) draining.delete(pool)
    }
  }
  const timer = setInterval(task(sweep), SWEEP_MS)
  timer.unref()

  const poolOf = (upstream: Upstream) => {
    const known = pools.get(upstream)
    if (known !== undefined) return known
    const pool = createPool(upstream, now, log)
    pools.set(upstream, pool)
    return pool
  }

  return {
    poolOf,
    retain(table) {
      const kept = new Set(table.upstreams.values())
      for (const [upstream, pool] of pools) {
        if (kept.has(upstream)) continue
        pools.delete(upstream)
        pool.drain()
        draining.add(pool)
      }
      for (const upstream of kept) poolOf(upstream)
    },
    connections: () => [...pools.values(), ...draining].reduce((sum, pool) => sum + pool.connections(), 0),
    status: () => [...pools.values()].map(pool => pool.status()),
    hasDown: () => [...pools.values()].some(pool => pool.isDown()),
    close() {
      clearInterval(timer)
      for (const pool of [...pools.values(), ...draining]) pool.destroy()
      pools.clear()
      draining.clear()
    }
  }
}
