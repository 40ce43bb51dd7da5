// Finds out which mutants the tests notice; what a test noticed before is remembered until the test or what it needs changes.
import { basename } from 'node:path'
import type { Graph } from './graph.ts'
import { type Memory, openMemory } from './memory.ts'
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

/** Tests that can notice a change of the module. */
const testsFor = async ({ graph, withSlow, log }: JudgeParts, module: string): Promise<Reach[]> => {
  const folder = module.split('/')[1] ?? ''
  const near = (test: string) =>
    test.startsWith(`test/${folder}/`) ||
    (NEIGHBOURS[folder] ?? []).includes(test) ||
    graph
      .imports(test)
      .some(file => file === module || (/^test\/(?!fuzz)/.test(file) && graph.imports(file).includes(module)))
  const found: Reach[] = []
  const able = graph.tests.filter(test => graph.needs(test).has(module) && !UNSUITED.includes(test))
  // Whatever opens a gateway reaches every module: only tests that are about this one are asked.
  const wanted = able.filter(test => near(test) && (withSlow || !isSlow(graph, test)))
  for (const test of nearest(graph, module, wanted)) {
    const reach = await measureReach(graph, test)
    if (!reach.passed) log(`${test} fails without a mutant, and is left out`)
    else if (reach.modules[module] !== undefined) found.push(reach)
  }
  return found
}

const MAX_SLOW = 3

/** All tests that start no process, and those others that are most likely about the module: the fewer, the more survive. */
const nearest = (graph: Graph, module: string, tests: readonly string[]): string[] => {
  const wordsOf = (file: string) => basename(file).split(/[-.]/)
  const words = new Set(wordsOf(module))
  const nearness = (test: string) =>
    (graph.imports(test).includes(module) ? 3 : 0) +
    (test.split('/')[1] === module.split('/')[1] ? 1 : 0) +
    wordsOf(test).filter(word => words.has(word)).length
  const slow = tests.filter(test => isSlow(graph, test))
  const kept = slow.sort((a, b) => nearness(b) - nearness(a)).slice(0, MAX_SLOW)
  return tests.filter(test => kept.includes(test) || !isSlow(graph, test))
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
  const order = createOrder(graph)
  const firstKiller = async (module: string, mutant: Mutant, tests: readonly Reach[], memory: Memory) => {
    const known = memory.killerOf(mutant)
    if (known !== undefined) return known
    for (const test of order.of(tests, memory.formerKillerOf(mutant))) {
      if (memory.hasPassed(mutant, test)) continue
      const startedAt = performance.now()
      const isKilled = (await runner.run(test, module, mutant)) !== 'passed'
      order.note(test, performance.now() - startedAt, isKilled)
      if (isKilled) memory.rememberKill(mutant, test)
      else memory.rememberPass(mutant, test)
      if (isKilled) return test
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
      const open = mutants.filter(mutant => memory.killerOf(mutant) === undefined)
      const near = open.length === 0 ? [] : await testsFor(parts, module)
      const isUnknown = ({ test }: Reach) => open.some(mutant => !memory.hasPassed(mutant, test))
      const tests = near.some(isUnknown) ? await trusted(module, near) : near
      for (const mutant of mutants) {
        const able = tests.filter(reach => reaches(reach, module, mutant.start))
        const killedBy = await firstKiller(module, mutant, able, memory)
        onVerdict({ module, mutant, killedBy, reachedBy: able.length })
      }
      memory.save()
    }
  }
}

/** Which test to ask first: the one with the most kills for its time so far; those that start processes come last. */
const createOrder = (graph: Graph) => {
  const records = new Map<string, { runs: number; kills: number; tookMs: number }>()
  const recordOf = (test: string) => records.get(test) ?? { runs: 0, kills: 0, tookMs: 0 }
  const costMs = ({ test, tookMs }: Reach) => {
    const record = recordOf(test)
    const meanMs = record.runs === 0 ? tookMs : record.tookMs / record.runs
    return (meanMs * (record.runs + 2)) / (record.kills + 1)
  }
  return {
    of(tests: readonly Reach[], likely: string | undefined): string[] {
      const rank = (test: string) => (test === likely ? 0 : isSlow(graph, test) ? 2 : 1)
      return tests.toSorted((a, b) => rank(a.test) - rank(b.test) || costMs(a) - costMs(b)).map(({ test }) => test)
    },
    note(test: string, tookMs: number, isKilled: boolean) {
      const record = recordOf(test)
      records.set(test, {
        runs: record.runs + 1,
        kills: record.kills + (isKilled ? 1 : 0),
        tookMs: record.tookMs + tookMs
      })
    }
  }
}
