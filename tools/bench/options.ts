// The command line of the benchmark has become checked options, or a usage error.
import { parseArgs } from 'node:util'

export const GROUPS = [
  'http',
  'tokens',
  'limits',
  'bodies',
  'websocket',
  'floods',
  'tls',
  'h2',
  'crowds',
  'grants',
  'audit',
  'start'
] as const
export type Group = (typeof GROUPS)[number]

export interface Options {
  readonly groups: readonly Group[]
  readonly quick: boolean
  readonly rounds: number
  /** Length of one round. */
  readonly seconds: number
  readonly warmUpSeconds: number
  readonly connections: number
}

export const USAGE = `npm run bench -- [${GROUPS.join('|')}]… [options]

  --rounds N         interleaved rounds (5)
  --seconds N        length of a round (5)
  --warm-up N        seconds of warm-up for each subject (5)
  --quick            2 rounds of 1 s after 1 s, small bodies and counts: tries the harness, measures nothing
`

export class UsageError extends Error {}

const isGroup = (name: string): name is Group => (GROUPS as readonly string[]).includes(name)

const positive = (name: string, text: string | undefined, fallback: number, least = 1): number => {
  if (text === undefined) return fallback
  const value = Number(text)
  if (!Number.isFinite(value) || value < least) throw new UsageError(`--${name} must be a number of at least ${least}`)
  return value
}

const parse = (args: readonly string[]) => {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        rounds: { type: 'string' },
        seconds: { type: 'string' },
        'warm-up': { type: 'string' },
        quick: { type: 'boolean', default: false }
      }
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : 'bad arguments')
  }
}

/** @throws UsageError for an unknown group, an unknown option or a number out of range. */
export const readOptions = (args: readonly string[]): Options => {
  const { values, positionals } = parse(args)
  const unknown = positionals.filter(name => !isGroup(name))
  if (unknown.length > 0) throw new UsageError(`no such group: ${unknown.join(', ')}`)

  const quick = values.quick ?? false
  const named = positionals.filter(isGroup)
  return {
    groups: named.length > 0 ? GROUPS.filter(group => named.includes(group)) : GROUPS,
    quick,
    rounds: Math.trunc(positive('rounds', values.rounds, quick ? 2 : 5)),
    seconds: Math.trunc(positive('seconds', values.seconds, quick ? 1 : 5)),
    warmUpSeconds: Math.trunc(positive('warm-up', values['warm-up'], quick ? 1 : 5)),
    connections: 64
  }
}
