// Finds out which mutants the tests notice; what a test noticed before is remembered until the test or what it needs changes.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Graph, ROOT, scriptOf } from './graph.ts'
import { NEIGHBOURS, UNSUITED } from './modules.ts'
import type { Mutant } from './mutants.ts'
import { measureReach, type Reach, reaches } from './reach.ts'
import { isSlow, type Runner } from './runner.ts'

export interface Verdict {
  readonly module: string
  readonly mutant: Mutant
  /** What noticed it; undefined: it survived. */
  readonly killedBy: string | undefined
  /** How many tests run the changed code. */
  readonly reachedBy: number
}

const MEMORY = join(ROOT, 'node_modules/.cache/portaria-mutate')
/** So often what is known is written down. */
const SAVE_EVERY = 25

/** Which test killed a mutant of the module, by their contents. */
const openMemory = (graph: Graph, module: string) => {
  const file = join(MEMORY, `killed-${module.replaceAll('/', '-')}.json`)
  const known = new Map<string, string>(
    existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as [string, string][]) : []
  )
  const script = scriptOf(module)
  const keyOf = ({ start, original, replacement }: Mutant) =>
    createHash('sha256').update([script, start, original, replacement].join('\0')).digest('base64url')
  let unsaved = 0
  const save = () => {
    unsaved = 0
    mkdirSync(MEMORY, { recursive: true })
    writeFileSync(file, JSON.stringify([...known]))
  }
  return {
    recall(mutant: Mutant): string | undefined {
      const [test, fingerprint] = known.get(keyOf(mutant))?.split(' ') ?? []
      if (test === undefined || !graph.tests.includes(test)) return undefined
      return graph.fingerprint(test) === fingerprint ? test : undefined
    },
    remember(mutant: Mutant, test: string) {
      known.set(keyOf(mutant), `${test} ${graph.fingerprint(test)}`)
      if (++unsaved >= SAVE_EVERY) save()
    },
    save
  }
}

type Memory = ReturnType<typeof openMemory>

/** Tests that can notice a change of the module, the fastest first. */
const testsFor = async ({ graph, withSlow, log }: JudgeParts, module: string): Promise<Reach[]> => {
  const folder = module.split('/')[1] ?? ''
  const near = (test: string) =>
    test.startsWith(`test/${folder}/`) ||
    (NEIGHBOURS[folder] ?? []).includes(test) ||
    graph
      .imports(test)
      .some(file => file === module || (/^test\/(?!fuzz)/.test(file) && graph.imports(file).includes(module)))
  const found: Reach[] = []
  for (const test of graph.tests.filter(each => graph.needs(each).has(module) && !UNSUITED.includes(each))) {
    // Whatever opens a gateway reaches every module: only tests that are about this one are asked.
    if (!near(test) || (isSlow(graph, test) && !withSlow)) continue
    const reach = await measureReach(graph, test)
    if (!reach.passed) log(`${test} fails without a mutant, and is left out`)
    else if (reach.modules[module] !== undefined) found.push(reach)
  }
  return found.sort((a, b) => Number(isSlow(graph, a.test)) - Number(isSlow(graph, b.test)) || a.tookMs - b.tookMs)
}

export interface Judge {
  judge(module: string, mutants: readonly Mutant[], onVerdict: (verdict: Verdict) => void): Promise<void>
}

interface JudgeParts {
  readonly graph: Graph
  readonly runner: Runner
  /** Whether tests that start processes are asked too. */
  readonly withSlow: boolean
  readonly log: (line: string) => void
}

export const createJudge = (parts: JudgeParts): Judge => {
  const { graph, runner, log } = parts
  const firstKiller = async (module: string, mutant: Mutant, tests: readonly Reach[], memory: Memory) => {
    const known = memory.recall(mutant)
    if (known !== undefined) return known
    for (const { test } of tests) {
      if ((await runner.run(test, module, mutant)) === 'passed') continue
      memory.remember(mutant, test)
      return test
    }
    return undefined
  }
  /** A test that fails in the runner without any mutant would kill everything. */
  const trusted = async (module: string, tests: readonly Reach[]): Promise<Reach[]> => {
    const found: Reach[] = []
    for (const reach of tests) {
      if (isSlow(graph, reach.test) || (await runner.run(reach.test, module, undefined)) === 'passed') found.push(reach)
      else log(`${reach.test} does not pass in the runner, and is left out`)
    }
    return found
  }
  return {
    async judge(module, mutants, onVerdict) {
      const memory = openMemory(graph, module)
      const open = mutants.filter(mutant => memory.recall(mutant) === undefined)
      const tests = open.length === 0 ? [] : await trusted(module, await testsFor(parts, module))
      for (const mutant of mutants) {
        const able = tests.filter(reach => reaches(reach, module, mutant.start))
        const killedBy = await firstKiller(module, mutant, able, memory)
        onVerdict({ module, mutant, killedBy, reachedBy: able.length })
      }
      memory.save()
    }
  }
}
