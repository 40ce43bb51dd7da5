// The table of attacks and faults in the catalogue has been printed, each with the test files that name it in a comment.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { styleText } from 'node:util'
import { NOT_APPLICABLE } from './security-not-applicable.ts'

const HERE = import.meta.dirname
const ENTRY = /^\*\*([A-Z]{2}-\d{2})\b[^—]*—(.*)\*\*$/
/** The last two groups are tables: id, priority, attack or fault, what happened, what is asked. */
const ROW = /^\| (R[VW]-\d{2,3}) \| P\d \| (.+?) \|/
const NAMED = /\b(?:RT|HD|SM|JW|OA|LD|WS|RL|RX|DF|CF|AD|RV|RW)-\d{2,3}(?:…\d{2,3})?\b/g

export interface Entry {
  readonly id: string
  readonly title: string
  readonly priority: string
  /** Test files that name the id in a `//` comment. */
  readonly tests: string[]
  /** Why it can't apply here; undefined when it does. */
  readonly exempt: string | undefined
}

/** `RX-01…03` names three. */
const expand = (named: string): string[] => {
  const [first = '', last] = named.split('…')
  if (last === undefined) return [first]
  const from = Number(first.slice(3))
  return Array.from(
    { length: Number(last) - from + 1 },
    (_, i) => `${first.slice(0, 3)}${String(from + i).padStart(2, '0')}`
  )
}

const idsIn = (source: string): Set<string> => {
  const comments = source.split('\n').flatMap(line => /\/\/(.*)$/.exec(line)?.[1] ?? [])
  return new Set(comments.flatMap(comment => [...comment.matchAll(NAMED)].flatMap(([named]) => expand(named))))
}

/** Every entry of the catalogue in its order, joined with the tests that name it. */
export const readCoverage = (): Entry[] => {
  const files = readdirSync(HERE, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.test.ts'))
  const named = files.map(file => ({ file, ids: idsIn(readFileSync(join(HERE, file), 'utf8')) }))
  const lines = readFileSync(join(HERE, 'security-catalogue.md'), 'utf8').split('\n')
  return lines.flatMap(line => {
    const [, id, title = ''] = ENTRY.exec(line) ?? ROW.exec(line) ?? []
    if (id === undefined) return []
    const tests = named.filter(({ ids }) => ids.has(id)).map(({ file }) => file.replace('.test.ts', ''))
    return [{ id, title: title.trim(), priority: /P[0-3]/.exec(line)?.[0] ?? '', tests, exempt: NOT_APPLICABLE[id] }]
  })
}

const show = (entries: readonly Entry[]) => {
  for (const { id, priority, title, tests, exempt } of entries) {
    const found = tests.length > 0 ? tests.join(', ') : exempt === undefined ? 'NO TEST' : `not applicable: ${exempt}`
    const line = `${id} ${priority.padEnd(2)} ${title.slice(0, 52).padEnd(52)} ${found}`
    console.log(tests.length === 0 && exempt === undefined ? styleText('red', line) : line)
  }
  const groups = [...new Set(entries.map(({ id }) => id.slice(0, 2)))]
  console.log()
  for (const group of groups) {
    const of = entries.filter(({ id }) => id.startsWith(group))
    const tested = of.filter(({ tests }) => tests.length > 0).length
    const exempt = of.filter(entry => entry.tests.length === 0 && entry.exempt !== undefined).length
    console.log(`${group}  ${tested} tested, ${exempt} not applicable, ${of.length - tested - exempt} without a test`)
  }
}

if (import.meta.main) show(readCoverage())
