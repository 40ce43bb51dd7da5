// Tries cases and writes what was seen into a table: alone, or at a system by itself and through the gateway.
import { stripVTControlCharacters } from 'node:util'
import { type Teardown, withTeardown } from '../teardown.ts'
import { fillTable, messageOf, say, type Table } from './table.ts'

export interface Case<Place> {
  readonly name: string
  /** What was seen, in one line; throws if that is not as it should be. */
  run(place: Place): Promise<string>
}

/** A case whose name says all that is to be seen; it throws if anything else is. */
export const silent = <Place>(name: string, run: (place: Place) => Promise<void>): Case<Place> => ({
  name,
  run: place => run(place).then(() => 'works')
})

export interface ComparedCase<Place> extends Case<Place> {
  /** Where the gateway is meant to differ from the system by itself: what happens then, and why. */
  readonly contract?: { readonly through: string; readonly because: string }
}

/** What was seen, or the last line of the error. */
export const outcomeOf = (running: Promise<string>): Promise<{ isRight: boolean; text: string }> =>
  running.then(
    text => ({ isRight: true, text }),
    error => {
      const lines = stripVTControlCharacters(messageOf(error)).trim().split('\n')
      return { isRight: false, text: `FAILED: ${lines.at(-1)?.trim()}` }
    }
  )

/** @param places the system by itself, and the same through the gateway; resolves to two cells */
export const compare = async <Place>(
  { run, contract }: ComparedCase<Place>,
  [alone, behind]: readonly [Place, Place]
): Promise<{ isRight: boolean; cells: readonly [string, string] }> => {
  const direct = await outcomeOf(run(alone))
  const through = await outcomeOf(run(behind))
  // What fails without the gateway too was not tried.
  const isRight = direct.isRight && through.text === (contract?.through ?? direct.text)
  if (!isRight) return { isRight, cells: [direct.text, `DIFFERS: ${through.text}`] }
  const reason = contract === undefined ? '' : `: ${contract.because}`
  return { isRight, cells: [direct.text, through.text === direct.text ? 'the same' : through.text + reason] }
}

const INSTALLING: Table = { heading: '## Ways to install', keys: 1 }

/** Cases of one way to install; resolves to how many did not work. */
export const tryInstalling = <Place>(cases: readonly Case<Place>[], place: Place, version: string): Promise<number> =>
  fillTable(INSTALLING, async add => {
    for (const { name, run } of cases) {
      const { isRight, text } = await outcomeOf(run(place))
      add([name, version, text], isRight)
    }
  })

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
