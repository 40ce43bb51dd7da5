// Keeps what each test made of each mutant, so that a run that was stopped goes on and an unchanged one only reads.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Graph, ROOT, scriptOf } from './graph.ts'
import type { Mutant } from './mutants.ts'

const FOLDER = join(ROOT, 'node_modules/.cache/portaria-mutate')
/** What is known is written down after so many results. */
const SAVE_EVERY = 25

export interface Memory {
  /** The test that noticed the mutant, unless the test or what it needs has changed since. */
  killerOf(mutant: Mutant): string | undefined
  /** The test that noticed it, even if it has changed since: it is likely to notice it again. */
  formerKillerOf(mutant: Mutant): string | undefined
  /** Whether the test, as it is now, has passed with the mutant. */
  hasPassed(mutant: Mutant, test: string): boolean
  rememberKill(mutant: Mutant, test: string): void
  rememberPass(mutant: Mutant, test: string): void
  save(): void
}

interface Kept {
  /** `test fingerprint`, by mutant. */
  readonly killed: readonly (readonly [string, string])[]
  /** By mutant, with the fingerprint of the test. */
  readonly passed: readonly string[]
}

export const openMemory = (graph: Graph, module: string): Memory => {
  const file = join(FOLDER, `verdicts-${module.replaceAll('/', '-')}.json`)
  const kept = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Kept) : { killed: [], passed: [] }
  const killed = new Map(kept.killed)
  const passed = new Set(kept.passed)
  const script = scriptOf(module)
  const keyOf = ({ start, original, replacement }: Mutant) =>
    createHash('sha256').update([script, start, original, replacement].join('\0')).digest('base64url')
  const passKey = (mutant: Mutant, test: string) => `${keyOf(mutant)} ${graph.fingerprint(test)}`
  const wordsOf = (mutant: Mutant) => {
    const [test, fingerprint] = killed.get(keyOf(mutant))?.split(' ') ?? []
    return test !== undefined && graph.tests.includes(test) ? { test, fingerprint } : undefined
  }
  let unsaved = 0
  const save = () => {
    unsaved = 0
    mkdirSync(FOLDER, { recursive: true })
    writeFileSync(file, JSON.stringify({ killed: [...killed], passed: [...passed] } satisfies Kept))
  }
  const noteChange = () => {
    if (++unsaved >= SAVE_EVERY) save()
  }
  return {
    killerOf(mutant) {
      const known = wordsOf(mutant)
      return known !== undefined && graph.fingerprint(known.test) === known.fingerprint ? known.test : undefined
    },
    formerKillerOf: mutant => wordsOf(mutant)?.test,
    hasPassed: (mutant, test) => passed.has(passKey(mutant, test)),
    rememberKill(mutant, test) {
      killed.set(keyOf(mutant), `${test} ${graph.fingerprint(test)}`)
      noteChange()
    },
    rememberPass(mutant, test) {
      passed.add(passKey(mutant, test))
      noteChange()
    },
    save
  }
}
