// Fills tables of docs/compatibility.md with what the lab saw, replacing their earlier rows.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'

const PAGE = join(import.meta.dirname, '../../docs/compatibility.md')

interface Table {
  /** The line above it; both are added at the end of the page if it has none. */
  readonly heading: string
  readonly columns: readonly string[]
}

type Row = readonly string[]

export type Teardown = Pick<Test, 'teardown'>

const running: (() => Promise<void>)[] = []

/** Runs something with a teardown of its own, as tap gives one to a test. */
export const withTeardown = async <T>(work: (t: Teardown) => Promise<T>): Promise<T> => {
  const endings: (() => unknown)[] = []
  const endAll = async () => {
    for (const end of endings.splice(0).reverse()) await end()
  }
  running.push(endAll)
  try {
    return await work({ teardown: action => void endings.push(action) })
  } finally {
    await endAll()
    running.pop()
  }
}

/** Ends what a lab that is interrupted has started, the newest first. */
export const endRunning = async (): Promise<void> => {
  for (const endAll of [...running].reverse()) await endAll()
}

export const say = (line: string): void => void process.stdout.write(`${line}\n`)

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const lineOf = (row: Row): string => `| ${row.map(cell).join(' | ')} |`
const rowOf = (line: string): Row =>
  line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map(text => text.trim().replaceAll('\\|', '|'))

/** Replaces rows for which `isOld` is true in place; new ones go to the end of the table. */
const replaceRows = (table: Table, rows: readonly Row[], isOld: (row: Row) => boolean): void => {
  const lines = readFileSync(PAGE, 'utf8').trimEnd().split('\n')
  if (!lines.includes(table.heading)) {
    lines.push('', table.heading, '', lineOf(table.columns), `|${'---|'.repeat(table.columns.length)}`)
  }
  const heading = lines.indexOf(table.heading)
  const start = lines.findIndex((line, i) => i > heading && line.startsWith('|---')) + 1
  const length = lines.slice(start).findIndex(line => !line.startsWith('|'))
  const end = length === -1 ? lines.length : start + length
  const old = lines.slice(start, end)
  const at = old.findIndex(line => isOld(rowOf(line)))
  const kept = old.filter(line => !isOld(rowOf(line)))
  kept.splice(at === -1 ? kept.length : at, 0, ...rows.map(lineOf))
  writeFileSync(PAGE, `${[...lines.slice(0, start), ...kept, ...lines.slice(end)].join('\n')}\n`)
}

/** Prints the rows that `fill` adds and writes them into the table; resolves to how many are wrong. Earlier rows stay if it throws. */
export const fillTable = async (
  table: Table,
  isOld: (row: Row) => boolean,
  fill: (add: (row: Row, isRight: boolean) => void) => Promise<void>
): Promise<number> => {
  const rows: Row[] = []
  let wrong = 0
  const add = (row: Row, isRight: boolean) => {
    say(lineOf(row))
    rows.push(row)
    if (!isRight) wrong++
  }
  try {
    await fill(add)
    if (rows.length > 0) replaceRows(table, rows, isOld)
  } catch (error) {
    say(`not run: ${messageOf(error)}`)
    wrong++
  }
  return wrong
}
