// Selects the best target of an upstream for each request; while all of them are full, requests wait in order, up to a number and for a time.
import { type GatewayError, Unavailable } from '../errors.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { type Contained, contain, task } from '../values/contain.ts'
import type { UpstreamConnection } from './connection.ts'
import type { TargetHealth } from './health.ts'
import type { Membership, TargetPool, Wanted } from './pool.ts'

/** What a request needs when it may go to any target. */
interface Asked extends Wanted {
  /** Targets that it has tried. */
  readonly not?: readonly Target[] | undefined
  /** It may go to no other target. */
  readonly only?: Target | undefined
  /** What follows it stays at the same target, so it takes turns with others of its kind alone. */
  readonly isSession?: boolean | undefined
}

/** Exactly one of the two is called, once, unless the request stops waiting before. */
export interface Waiter extends Contained {
  onConnection(connection: UpstreamConnection): void
  onRefused(error: GatewayError): void
}

interface Waiting {
  readonly waiter: Waiter
  readonly asked: Asked
  readonly timer: NodeJS.Timeout
}

/** @param limits undefined: nothing waits */
const createQueue = (limits: { readonly max: number; readonly timeoutMs: number } | undefined) => {
  const waiting = new Set<Waiting>()

  const leave = (one: Waiting): boolean => {
    clearTimeout(one.timer)
    return waiting.delete(one)
  }

  return {
    length: () => waiting.size,
    /** Returns a function that stops waiting, or the reason for refusing. */
    enter(waiter: Waiter, asked: Asked): (() => void) | GatewayError {
      if (limits === undefined) return new Unavailable({ reason: 'upstream-connections-exhausted' })
      if (waiting.size >= limits.max) return new Unavailable({ reason: 'upstream-queue-full' })
      const giveUp = () => {
        if (leave(one)) waiter.onRefused(new Unavailable({ reason: 'upstream-queue-timeout' }))
      }
      const timer = setTimeout(() => contain(waiter, giveUp), limits.timeoutMs)
      const one = { waiter, asked, timer }
      waiting.add(one)
      return () => void leave(one)
    },
    /** In order, until there is no connection for one. Those that have tried a target hold up no other: the free one may be that. */
    serve(connectionFor: (asked: Asked) => UpstreamConnection | undefined): void {
      for (const one of waiting) {
        const connection = connectionFor(one.asked)
        if (connection === undefined) {
          if (one.asked.not === undefined) return
          continue
        }
        leave(one)
        contain(one.waiter, waiter => waiter.onConnection(connection))
      }
    }
  }
}

export type UpstreamStatus = ReturnType<UpstreamPool['status']>

export type UpstreamPool = ReturnType<typeof createUpstreamPool>

const NONE: readonly Target[] = []

const isOneOf = (target: Target, targets: readonly Target[]): boolean => targets.some(({ url }) => url === target.url)

/** In order of preference. There is always one to try: a backup, one that is out, or the same one again. */
const PREFERENCES: readonly ((pool: TargetPool, not: readonly Target[]) => boolean)[] = [
  ({ target, health }, not) => !health.isOut && target.backup !== true && !isOneOf(target, not),
  ({ target, health }, not) => !health.isOut && !isOneOf(target, not),
  ({ target, health }, not) => health.isResting && !isOneOf(target, not),
  ({ target }, not) => target.backup !== true && !isOneOf(target, not),
  ({ target }, not) => !isOneOf(target, not),
  () => true
]

const leastBusy = ([first, ...others]: readonly TargetPool[]): TargetPool | undefined =>
  others.reduce((best, pool) => (best !== undefined && best.busy() <= pool.busy() ? best : pool), first)

/** The fewest requests in progress win, equals take turns; undefined while all that may be used are full. */
const createChoice = () => {
  let turn = 0

  return (pools: readonly TargetPool[], asked: Asked): TargetPool | undefined => {
    turn = (turn + 1) % pools.length
    const inTurn = [...pools.slice(turn), ...pools.slice(0, turn)]
    for (const isAmong of PREFERENCES) {
      const candidates = inTurn.filter(pool => isAmong(pool, asked.not ?? NONE))
      if (candidates.length === 0) continue
      const free = candidates.filter(pool => pool.hasRoom(asked))
      // One that has just returned takes few turns while there are others.
      return leastBusy(free.filter(({ health }) => health.takesTurn())) ?? leastBusy(free)
    }
    return undefined
  }
}

/** @param join finds or creates the pools of an upstream's targets */
export const createUpstreamPool = (
  upstream: Upstream,
  join: (membership: Omit<Membership, 'target'>) => readonly TargetPool[]
) => {
  const chooseForRequest = createChoice()
  const chooseForSession = createChoice()
  const queue = createQueue(upstream.queue)
  let members: readonly TargetPool[] = []
  let isServing = false

  const memberAt = (url: string | undefined) => members.find(member => member.isAt(url))
  const poolFor = (asked: Asked) => {
    const { client, only, isSession = false } = asked
    if (only !== undefined) return memberAt(only.url)
    if (members.length === 1) return members[0]
    const bound = client && members.find(member => member.hasBound(client))
    return bound ?? (isSession ? chooseForSession : chooseForRequest)(members, asked)
  }
  const connectionFor = (asked: Asked) => poolFor(asked)?.acquire(asked)
  /** Serves requests that wait; returns whether some still do. */
  const serve = (): boolean => {
    isServing = false
    queue.serve(connectionFor)
    return queue.length() > 0
  }
  // At the end of whatever is going on with the connection that has become free.
  const onRoom = () => {
    if (queue.length() === 0 || isServing) return
    isServing = true
    queueMicrotask(task(serve))
  }
  const membership = {
    upstream,
    onRoom,
    hasOther: (health: TargetHealth) => members.some(other => other.health !== health && !other.health.isOut)
  }
  /** Puts other targets in the place of those so far. */
  const assemble = () => {
    members = join(membership)
    onRoom()
  }
  assemble()

  return {
    /** To the healthiest target, to none of those tried while there are others, or to the `only` one; undefined: it has no room. */
    acquire(asked: Asked = {}): UpstreamConnection | undefined {
      // First come, first served.
      return asked.only === undefined && queue.length() > 0 ? undefined : connectionFor(asked)
    },
    /** A new connection, for a request to switch protocols; its target is chosen in the same way. */
    dial: (asked: Pick<Asked, 'not' | 'only'>): UpstreamConnection | undefined =>
      poolFor({ ...asked, isStream: true, isSession: true })?.dial(),
    /** Waits for a connection after `acquire` had none. */
    wait(waiter: Waiter, asked: Asked): (() => void) | GatewayError {
      const entered = queue.enter(waiter, asked)
      // All that wait before it may have tried the target that is free.
      if (members.length > 1) onRoom()
      return entered
    },
    targetAt: (url: string | undefined): Target | undefined => memberAt(url)?.target,
    targetCount: () => members.length,
    members: () => members,
    isDown: () => members.every(({ health }) => health.isOut),
    status: () => ({ name: upstream.name, targets: members.map(member => member.status()) }),
    assemble,
    onRoom,
    serve
  }
}
