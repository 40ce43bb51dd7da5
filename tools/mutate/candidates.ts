// Names each mutant by its place and its change, and finds the reason why nothing can notice it.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EQUIVALENT, type Equivalent } from './equivalent.ts'
import { ROOT, scriptOf } from './graph.ts'
import { type Mutant, mutantsOf } from './mutants.ts'

const MAX_SHOWN = 90

/** A mutant, and where to look for it. */
export interface Candidate {
  readonly module: string
  readonly mutant: Mutant
  readonly position: string
  readonly line: string
  readonly change: string
}

export const candidatesIn = (module: string): Candidate[] => {
  const source = scriptOf(module)
  const lines = readFileSync(join(ROOT, module), 'utf8').split('\n')
  const seen = new Map<string, number>()
  return mutantsOf(source).map(mutant => {
    const before = source.slice(0, mutant.start).split('\n')
    const line = (lines[before.length - 1] ?? '').trim()
    const position = `${module}:${before.length}:${(before.at(-1) ?? '').length + 1}`
    const change = changeOf(mutant)
    // The same change may be made in several places of a line.
    const times = (seen.get(`${before.length} ${change}`) ?? 0) + 1
    seen.set(`${before.length} ${change}`, times)
    const numbered = times === 1 ? change : `${change} (${times})`
    return { module, mutant, position, line: line.replace(/\s+/g, ' '), change: numbered }
  })
}

const changeOf = ({ original, replacement }: Mutant) => {
  const [before, after] = [original, replacement].map(text => text.replace(/\s+/g, ' ')) as [string, string]
  let from = 0
  while (from < before.length && before[from] === after[from]) from++
  // What differs must be seen: an explanation names the change as it is shown.
  const isHidden = Math.max(before.length, after.length) > MAX_SHOWN && from > MAX_SHOWN / 2
  const start = isHidden ? from - MAX_SHOWN / 2 : 0
  const shorten = (text: string) =>
    (start > 0 ? '…' : '') + text.slice(start, start + MAX_SHOWN) + (text.length > start + MAX_SHOWN ? '…' : '')
  return `${shorten(before)} → ${shorten(after)}`
}

export const explains = ({ module, line, change }: Candidate): Equivalent | undefined =>
  EQUIVALENT.find(each => each.module === module && each.line === line && each.changes.includes(change))

/** Entries whose line or change is gone, among the modules that were looked at. */
export const staleEntries = (candidates: readonly Candidate[]): string[] => {
  const modules = new Set(candidates.map(({ module }) => module))
  const gone = EQUIVALENT.filter(({ module }) => !existsSync(join(ROOT, module)))
  const present = new Set(candidates.map(({ module, line, change }) => `${module}\0${line}\0${change}`))
  const judged = EQUIVALENT.filter(each => modules.has(each.module) || gone.includes(each))
  return judged.flatMap(({ module, line, changes }) =>
    changes
      .filter(change => !present.has(`${module}\0${line}\0${change}`))
      .map(change => `${module}: ${line}: ${change}`)
  )
}
