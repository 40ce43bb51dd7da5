// Lets requests wait in order until a target of their upstream has a connection to spare, up to a number and for a time.
import { type GatewayError, Unavailable } from '../errors.ts'
import type { Target } from '../routes/upstream.ts'
import { type Contained, contain } from '../values/contain.ts'
import type { UpstreamConnection } from './connection.ts'
import type { Wanted } from './pool.ts'

/** What a request needs when it may go to any target. */
export interface Asked extends Wanted {
  /** Targets that it has tried. */
  readonly not?: readonly Target[] | undefined
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
export const createQueue = (limits: { readonly max: number; readonly timeoutMs: number } | undefined) => {
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
    /** Serves those that wait, the first one first, until there is no connection for one. */
    serve(connectionFor: (asked: Asked) => UpstreamConnection | undefined): void {
      for (const one of waiting) {
        const connection = connectionFor(one.asked)
        if (connection === undefined) return
        leave(one)
        contain(one.waiter, waiter => waiter.onConnection(connection))
      }
    }
  }
}
