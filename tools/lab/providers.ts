// Tries each case of a directory or an identity provider directly, then through Portaria.
import { type Teardown, withTeardown } from '../teardown.ts'
import { outcomeOf } from './cases.ts'
import { fillTable, say } from './table.ts'

export interface ProviderCase {
  /** A sentence. */
  readonly name: string
  /** What the system does by itself: known, or tried. Throws if it cannot be tried. */
  readonly directly: string | (() => Promise<string>)
  /** What happens through Portaria. Throws if the result is wrong. */
  readonly through: () => Promise<string>
}

export interface Provider {
  readonly title: string
  /** Starts it, in a folder of its own, until `t`'s teardown. Throws when it is not installed. */
  start(t: Teardown): Promise<readonly ProviderCase[]>
  version(): string
}

/** Resolves to how many cases went wrong. */
export const runProvider = ({ title, start, version }: Provider): Promise<number> =>
  withTeardown(t =>
    fillTable({ heading: `## ${title}`, keys: 0 }, async add => {
      const cases = await start(t)
      // The start installs what is missing.
      say(version())
      for (const { name, directly, through } of cases) {
        const direct = typeof directly === 'string' ? directly : (await outcomeOf(directly())).text
        const { isRight, text } = await outcomeOf(through())
        add([name, direct, text], isRight)
      }
    })
  )
