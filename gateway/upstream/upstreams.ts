// Holds the targets of all upstreams: those of the route table in use, and those that are left until their requests are over.
import net from 'node:net'
import type { RouteTable } from '../routes/route.ts'
import { endpointOf, type Target, type Upstream } from '../routes/upstream.ts'
import { isLoopbackHost } from '../values/addresses.ts'
import { every } from '../values/contain.ts'
import { createAddresses, sharedLookup } from './lookup.ts'
import { createTargetPool, DIALLING, type Dialling, type Membership, type PoolParts, type TargetPool } from './pool.ts'
import { createUpstreamPool, type UpstreamPool } from './upstream-pool.ts'

const SWEEP_MS = 100
/** By which a sweep must be late to count as one after a standstill. */
const STANDSTILL_MS = 100

export type Upstreams = ReturnType<typeof createUpstreams>

interface UpstreamsOptions {
  /** Monotonic ms. */
  readonly now?: () => number
  readonly log?: PoolParts['log']
  readonly publicHost?: string
  readonly lookup?: net.LookupFunction
  readonly dialling?: Dialling
}

/** Of loopback, most backends use one of the two families: each connection finds which. */
const hasName = ({ socketPath, host }: Target): boolean =>
  socketPath === undefined && net.isIP(host) === 0 && !isLoopbackHost(host)

/** Targets with the same key share connections and health. */
const keyOf = (upstream: Upstream, target: Target): string => {
  const { ca, clientCertificate, serverName } = upstream
  return JSON.stringify([upstream.name, endpointOf(target), target.tls && { ca, clientCertificate, serverName }])
}

export const createUpstreams = (options: UpstreamsOptions = {}) => {
  const {
    now = () => performance.now(),
    log,
    publicHost = 'localhost',
    lookup = sharedLookup,
    dialling = DIALLING
  } = options
  /** Of the table in use. */
  const current = new Map<Upstream, UpstreamPool>()
  const members = new Map<string, TargetPool>()
  /** Of earlier tables, as long as a request refers to them. */
  const retired = new WeakMap<Upstream, UpstreamPool>()
  /** The part of them that requests have referred to since the last sweep, or in which some wait. */
  const waiting = new Set<UpstreamPool>()
  /** Drained, with connections that are still open. */
  const leaving = new Set<TargetPool>()
  const parts: PoolParts = { now, log, publicHost, dialling }

  /** A name with several addresses is as many targets. */
  const addressed = (target: Target): readonly Target[] => {
    const found = hasName(target) ? addresses.of(target.host) : []
    if (found.length < 2) return [target]
    return found.map(address => ({ ...target, address, url: `${target.url} (${address})` }))
  }
  const join = (membership: Omit<Membership, 'target'>): readonly TargetPool[] => {
    // Requests that wait under an earlier table come first.
    const onRoom = () => {
      for (const pool of waiting) pool.onRoom()
      membership.onRoom()
    }
    return membership.upstream.targets.flatMap(addressed).map(target => {
      const key = keyOf(membership.upstream, target)
      const known = members.get(key)
      known?.join({ ...membership, target, onRoom })
      const member = known ?? createTargetPool({ ...membership, target, onRoom }, parts)
      members.set(key, member)
      return member
    })
  }
  const joinNothing = (membership: Omit<Membership, 'target'>): readonly TargetPool[] =>
    membership.upstream.targets.map(target => {
      const passing = createTargetPool({ ...membership, target }, parts)
      passing.drain()
      return passing
    })
  const drainUnused = () => {
    const used = new Set([...current.values()].flatMap(pool => pool.members()))
    for (const [key, member] of members) {
      if (used.has(member)) continue
      members.delete(key)
      member.drain()
      leaving.add(member)
    }
  }
  /** A name that is one target becomes several, or the other way round: what is at its only address goes on there. */
  const moveOnlyAddress = (name: string, now: readonly string[], before: readonly string[]) => {
    const [from, to] = now.length === 1 ? [now[0], undefined] : [undefined, before[0]]
    for (const upstream of current.keys())
      for (const target of upstream.targets.filter(one => hasName(one) && one.host === name)) {
        const key = keyOf(upstream, { ...target, address: from })
        const member = members.get(key)
        if (member === undefined) continue
        members.delete(key)
        members.set(keyOf(upstream, { ...target, address: to }), member)
      }
  }
  const addresses = createAddresses(lookup, (name, ...change) => {
    moveOnlyAddress(name, ...change)
    for (const [{ targets }, pool] of current)
      if (targets.some(target => hasName(target) && target.host === name)) pool.assemble()
    drainUnused()
  })
  const all = () => new Set([...members.values(), ...leaving, ...[...waiting].flatMap(pool => pool.members())])

  let sweptAt = performance.now()
  /** Closes what is past its deadline. After a standstill of this process, in which it read nothing, silence is not a target's. */
  const sweep = () => {
    const at = now()
    const lateMs = performance.now() - sweptAt - SWEEP_MS
    sweptAt = performance.now()
    for (const member of all()) {
      if (lateMs >= STANDSTILL_MS) member.postpone(lateMs)
      member.sweep(at)
    }
    for (const pool of waiting) {
      for (const member of pool.members()) leaving.add(member)
      if (!pool.serve()) waiting.delete(pool)
    }
    for (const member of leaving) if (member.connections() === 0) leaving.delete(member)
  }
  const stop = every(SWEEP_MS, sweep)

  const retire = (upstream: Upstream, pool: UpstreamPool): UpstreamPool => {
    retired.set(upstream, pool)
    waiting.add(pool)
    return pool
  }

  return {
    /** An upstream that is not in the table is neither watched nor listed, and keeps no connection for later. */
    poolOf: (upstream: Upstream): UpstreamPool =>
      current.get(upstream) ?? retire(upstream, retired.get(upstream) ?? createUpstreamPool(upstream, joinNothing)),
    /** Takes over a table. Targets at the same address, with the same TLS settings, keep connections and health; others are drained. */
    retain(table: Pick<RouteTable, 'upstreams'>): void {
      const kept = new Set(table.upstreams.values())
      for (const [upstream, pool] of current) {
        if (kept.has(upstream)) continue
        current.delete(upstream)
        retire(upstream, pool)
      }
      for (const upstream of kept) if (!current.has(upstream)) current.set(upstream, createUpstreamPool(upstream, join))
      drainUnused()
      addresses.watch(new Set([...kept].flatMap(({ targets }) => targets.filter(hasName).map(({ host }) => host))))
    },
    /** Open upstream connections, busy and idle. */
    connections: () => [...all()].reduce((sum, one) => sum + one.connections(), 0),
    /** For the upstreams in use. */
    status: () => [...current.values()].map(pool => pool.status()),
    /** Whether some upstream has no target in service. */
    hasDown: () => [...current.values()].some(pool => pool.isDown()),
    close(): void {
      stop()
      addresses.close()
      for (const member of all()) member.destroy()
    }
  }
}
