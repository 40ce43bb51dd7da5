// Remembers for a second whose logins were refused, so that a flood of guesses costs neither searches nor transactions.
import type { LoginThrottled } from '../../errors.ts'
import { boundedMap } from '../../values/bounded-map.ts'

interface Refusal {
  readonly error: InstanceType<typeof LoginThrottled>
  /** The account whose known addresses may still try; undefined: none may. */
  readonly strangersTo?: { readonly name: string; readonly isTyped: boolean } | undefined
}

/** Another instance may have freed the account or the address by then. */
const REMEMBERED_MS = 1000
const MAX_REMEMBERED = 10_000

/** @param clock monotonic ms */
export const createRefusals = (clock: () => number) => {
  const refusals = boundedMap<string, { readonly refusal: Refusal; readonly until: number }>(MAX_REMEMBERED)
  return {
    /** @param forMs after which another attempt would not be refused; at most a second is remembered */
    add: (key: string, refusal: Refusal, forMs: number) =>
      refusals.set(key, { refusal, until: clock() + Math.min(REMEMBERED_MS, forMs) }),
    get: (key: string) => {
      const found = refusals.get(key)
      return found !== undefined && clock() < found.until ? found.refusal : undefined
    },
    delete: refusals.delete,
    clear: refusals.clear
  }
}
