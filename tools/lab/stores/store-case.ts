// Describes one thing that the lab tries with a store.
import type { Test } from 'tap'

export interface StoreCase {
  readonly name: string
  /** Throws, or resolves to what is wrong, if the result is not the one that the name promises. */
  readonly run: (t: Test) => Promise<readonly string[]>
}

export interface Store {
  readonly name: string
  readonly start: () => Promise<{ readonly version: string; readonly cases: readonly StoreCase[] }>
}
