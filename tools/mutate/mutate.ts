// Answers which small changes of the deciding code no test notices: `npm run mutate -- routes limits`.
import { createHash } from 'node:crypto'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { parseArgs, styleText } from 'node:util'
import { SHARED_POSTGRES } from '../../test/support/postgres.ts'
import { startSharedPostgres } from '../../test/support/shared-postgres.ts'
import { type Candidate, candidatesIn, explains, staleEntries } from './candidates.ts'
import { ROOT, readGraph } from './graph.ts'
import { DECIDING, decidersIn, sampledModules } from './modules.ts'
import { createRunner } from './runner.ts'
import { createJudge, type Verdict } from './verdicts.ts'

const PRIORITY = 10
const LANES = 2

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'string' },
    seed: { type: 'string', default: '18' },
    /** Leaves out tests that start processes. */
    quick: { type: 'boolean', default: false },
    /** Only those whose path holds this. */
    module: { type: 'string' }
  }
})

/** Chosen by hash, so that a change of one module leaves the sample of the others as it was. */
const sampleOf = (candidates: readonly Candidate[], count: number, seed: string): Candidate[] => {
  const rankOf = ({ module, line, change }: Candidate) =>
    createHash('sha256').update([seed, module, line, change].join('\0')).digest('hex')
  const ranked = candidates.map(candidate => ({ candidate, rank: rankOf(candidate) }))
  const chosen = ranked.sort((a, b) => (a.rank < b.rank ? -1 : 1)).slice(0, count)
  return candidates.filter(candidate => chosen.some(each => each.candidate === candidate))
}

const chosenCandidates = (): Candidate[] => {
  const folders = positionals.length > 0 ? positionals : DECIDING
  const modules = values.sample === undefined ? decidersIn(folders) : sampledModules()
  const all = modules.filter(module => module.includes(values.module ?? '')).flatMap(candidatesIn)
  return values.sample === undefined ? all : sampleOf(all, Number(values.sample), values.seed)
}

const percent = (part: number, whole: number) => `${((100 * part) / Math.max(1, whole)).toFixed(1)} %`

const main = async (): Promise<number> => {
  setPriority(PRIORITY)
  process.env.NODE_COMPILE_CACHE ??= join(ROOT, 'node_modules/.cache/portaria')
  const endings: (() => unknown)[] = []
  try {
    if (!values.quick) process.env[SHARED_POSTGRES] = await startSharedPostgres({ teardown: end => endings.push(end) })
    return await run()
  } finally {
    for (const end of endings) await end()
  }
}

const run = async (): Promise<number> => {
  const graph = readGraph()
  const runner = createRunner(graph)
  const judge = createJudge({ graph, runner, withSlow: !values.quick, log: line => console.log(line) })
  const candidates = chosenCandidates()
  const open = candidates.filter(candidate => explains(candidate) === undefined)
  const survivors: Candidate[] = []
  const judgeModule = async (module: string) => {
    const ours = new Map(open.filter(each => each.module === module).map(each => [each.mutant, each]))
    let survived = 0
    const onVerdict = ({ mutant, killedBy, reachedBy }: Verdict) => {
      const candidate = ours.get(mutant)
      if (killedBy !== undefined || candidate === undefined) return
      survived++
      survivors.push(candidate)
      const reached = reachedBy === 0 ? styleText('red', ' (no test runs it)') : ''
      console.log(`  ${candidate.position} ${candidate.change}${reached}`)
    }
    await judge.judge(module, [...ours.keys()], onVerdict)
    console.log(
      `${module}: ${ours.size - survived} of ${ours.size} noticed (${percent(ours.size - survived, ours.size)})`
    )
  }
  const modules = [...new Set(open.map(each => each.module))].values()
  // Tests that start processes mostly wait for them.
  const lanes = Array.from({ length: values.quick ? 1 : LANES }, async () => {
    for (const module of modules) await judgeModule(module)
  })
  await Promise.all(lanes)
  runner.close()
  const stale = staleEntries(values.sample === undefined ? candidates : sampledModules().flatMap(candidatesIn))
  for (const entry of stale) console.log(styleText('red', `equivalent.ts names what is not there: ${entry}`))
  const explained = candidates.length - open.length
  console.log(
    `${candidates.length} mutants: ${open.length - survivors.length} noticed, ${explained} explained, ${survivors.length} survived (${percent(candidates.length - survivors.length - explained, candidates.length)} noticed, ${percent(candidates.length - survivors.length, candidates.length)} with those explained)`
  )
  return survivors.length === 0 && stale.length === 0 ? 0 : 1
}

process.exitCode = await main()
