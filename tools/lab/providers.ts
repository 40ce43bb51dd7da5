// Tries each case of a directory or an identity provider directly, then through Portaria.
import { fillTable, messageOf, say, type Teardown, withTeardown } from './table.ts'

export interface ProviderCase {
  /** A sentence. */
  readonly name: string
  /** What the system does by itself; the text goes into the table. Throws if it cannot be tried. */
  readonly directly: () => Promise<string>
  /** What happens through Portaria. Throws if the result is wrong. */
  readonly through: () => Promise<string>
}

export interface Provider {
  /** As on the command line. */
  readonly name: string
  readonly title: string
  /** Starts it, in a folder of its own, until `t`'s teardown. Throws when it is not installed. */
  start(t: Teardown): Promise<readonly ProviderCase[]>
  version(): string
}

const tried = (run: () => Promise<string>) =>
  run().then(
    text => ({ ok: true, text }),
    (error: unknown) => ({ ok: false, text: `failed: ${messageOf(error)}` })
  )

/** Resolves to how many cases went wrong. */
export const runProvider = ({ title, start, version }: Provider): Promise<number> => {
  const table = { heading: `## ${title}`, columns: ['case', 'directly', 'through Portaria'] }
  return withTeardown(t =>
    fillTable(
      table,
      () => true,
      async add => {
        const cases = await start(t)
        // The start installs what is missing.
        say(version())
        for (const { name, directly, through } of cases) {
          const [direct, outcome] = [await tried(directly), await tried(through)]
          add([name, direct.text, outcome.text], outcome.ok)
        }
      }
    )
  )
}
