// Reads the command line of the benchmark.
import { parseArgs } from 'node:util'

export type Options = ReturnType<typeof readOptions>

export const usage = (groups: readonly string[]): string => `npm run bench -- [${groups.join('|')}]… [options]

  --rounds N         interleaved rounds (5)
  --seconds N        length of a round (5)
  --warm-up N        seconds of warm-up for each subject (5)
  --quick            2 rounds of 1 s after 1 s, small bodies and counts: tries the harness, measures nothing
`

/** Throws an Error for an unknown group, an unknown option or a number out of range. */
export const readOptions = (args: readonly string[], groups: readonly string[]) => {
  const text = { type: 'string' } as const
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { rounds: text, seconds: text, 'warm-up': text, quick: { type: 'boolean', default: false } }
  })
  const unknown = positionals.filter(name => !groups.includes(name))
  if (unknown.length > 0) throw new Error(`no such group: ${unknown.join(', ')}`)
  const { quick } = values
  const count = (name: 'rounds' | 'seconds' | 'warm-up', ofQuick: number): number => {
    const value = Math.trunc(Number(values[name] ?? (quick ? ofQuick : 5)))
    if (!(value >= 1)) throw new Error(`--${name} must be a number of at least 1`)
    return value
  }
  return {
    groups: positionals.length > 0 ? positionals : groups,
    quick,
    rounds: count('rounds', 2),
    /** Length of one round. */
    seconds: count('seconds', 1),
    warmUpSeconds: count('warm-up', 1)
  }
}
