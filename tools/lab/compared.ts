// Describes a system that the lab runs, and its cases: each is tried directly, then through the gateway.
import type { Test } from 'tap'

export interface Case {
  /** A sentence. */
  readonly name: string
  /** What the system does by itself; the text goes into the table. Throws if it cannot be tried. */
  readonly directly: () => Promise<string>
  /** What happens through Portaria. Throws if the result is wrong. */
  readonly through: () => Promise<string>
}

export interface Outcome {
  readonly name: string
  readonly directly: { readonly ok: boolean; readonly text: string }
  readonly through: { readonly ok: boolean; readonly text: string }
}

export interface Compared {
  /** As on the command line. */
  readonly name: string
  readonly title: string
  /** Starts it, in a folder of its own, until `t`'s teardown. Throws when it is not installed. */
  start(t: Pick<Test, 'teardown'>, say: (line: string) => void): Promise<readonly Case[]>
  version(): Promise<string>
}
