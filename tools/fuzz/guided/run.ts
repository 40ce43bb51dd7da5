// Fuzzes parsers with inputs that learn: `npm run fuzz -- --target all --seconds 60`, or `--runs 10000000`, `--seed 7`, `--save`.

import { readGuided, writeGuided } from './corpus.ts'
import { startCoverage } from './coverage.ts'
import { fuzzTarget, type Target } from './engine.ts'
import { minimize } from './minimize.ts'
import { TARGETS } from './targets.ts'

export interface GuidedOptions {
  /** `all`, or names separated by commas. */
  readonly target: string
  readonly seed: number
  readonly seconds: number
  /** Instead of a time. */
  readonly runs: number | undefined
  /** Whether inputs that reached something new are written to the corpus. */
  readonly save: boolean
  readonly coverage: boolean
  /** Whether the first fault ends the run. */
  readonly first: boolean
}

const OURS = /\/gateway\//
const MAX_SHOWN = 20
/** A long run says where it is. */
const PROGRESS_MS = 60_000

/** Prints what was done and found; resolves to the number of different faults. */
export const runGuided = async (options: GuidedOptions): Promise<number> => {
  const chosen = TARGETS.filter(({ name }) => options.target === 'all' || options.target.split(',').includes(name))
  if (chosen.length === 0) {
    console.log(`no such target; there are ${TARGETS.map(({ name }) => name).join(', ')}`)
    return 1
  }
  let faults = 0
  for (const target of chosen) faults += await runOne(target, options)
  return faults
}

const runOne = async (target: Target, options: GuidedOptions): Promise<number> => {
  const faults = new Map<string, string>()
  const onFault = (fault: string, input: string) => {
    const known = faults.get(fault)
    if (known === undefined || known.length > input.length) faults.set(fault, input)
  }
  const until = performance.now() + options.seconds * 1000
  const startedAt = performance.now()
  let saidAt = startedAt
  const goesOn = (runs: number) => {
    const now = performance.now()
    if (now - saidAt > PROGRESS_MS) {
      saidAt = now
      console.log(
        `  ${target.name}: ${runs} runs after ${Math.round((now - startedAt) / 1000)} s, ${faults.size} faults`
      )
    }
    if (options.first && faults.size > 0) return false
    return options.runs === undefined ? performance.now() < until : runs < options.runs
  }
  const coverage = options.coverage ? startCoverage(url => OURS.test(url)) : undefined
  const known = readGuided(target.name)
  const startedCpu = process.cpuUsage()
  const seeded = { ...target, seeds: [...target.seeds, ...known] }
  const { runs, kept } = await fuzzTarget(seeded, { seed: options.seed, goesOn, onFault, coverage })
  const { user, system } = process.cpuUsage(startedCpu)
  coverage?.stop()

  const perCpuSecond = Math.round((runs / (user + system)) * 1e6)
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  console.log(
    `${target.name}: ${runs} runs in ${seconds} s (${perCpuSecond} a second of CPU), ${kept.size} states, ${faults.size} faults`
  )
  if (target.summary !== undefined) console.log(`  ${target.summary()}`)
  for (const [fault, input] of [...faults].slice(0, MAX_SHOWN)) {
    console.log(`FAULT ${fault}\n  ${JSON.stringify((await minimize(target, input)).slice(0, 2000))}`)
  }
  if (options.save) console.log(`  corpus: ${writeGuided(target.name, [...known, ...kept.values()])} inputs`)
  return faults.size
}
