// Fills tables of docs/compatibility.md with what the lab saw, replacing their earlier rows.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const PAGE = join(import.meta.dirname, '../../docs/compatibility.md')

export interface Table {
  /** The line above it. */
  readonly heading: string
  /** How many of its first cells say what was run: new rows replace those that say the same. */
  readonly keys: number
}

type Row = readonly string[]

export const say = (line: string): void => void process.stdout.write(`${line}\n`)

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const lineOf = (row: Row): string => `| ${row.map(cell).join(' | ')} |`
const rowOf = (line: string): Row =>
  line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map(text => text.trim().replaceAll('\\|', '|'))

/** In the place of the first old row, or at the end of the table. */
const replaceRows = ({ heading, keys }: Table, rows: readonly Row[]): void => {
  const lines = readFileSync(PAGE, 'utf8').trimEnd().split('\n')
  const from = lines.indexOf(heading)
  if (from === -1) throw new Error(`docs/compatibility.md has no ${heading}`)
  const start = lines.findIndex((line, i) => i > from && line.startsWith('|---')) + 1
  const length = lines.slice(start).findIndex(line => !line.startsWith('|'))
  const end = length === -1 ? lines.length : start + length
  const keyOf = (row: Row) => JSON.stringify(row.slice(0, keys))
  const replaced = new Set(rows.map(keyOf))
  const isOld = (line: string) => replaced.has(keyOf(rowOf(line)))
  const old = lines.slice(start, end)
  const at = old.findIndex(isOld)
  const kept = old.filter(line => !isOld(line))
  kept.splice(at === -1 ? kept.length : at, 0, ...rows.map(lineOf))
  writeFileSync(PAGE, `${[...lines.slice(0, start), ...kept, ...lines.slice(end)].join('\n')}\n`)
}

/** Prints the rows that `fill` adds and writes them into the table; resolves to how many are wrong. Earlier rows stay if it throws. */
export const fillTable = async (
  table: Table,
  fill: (add: (row: Row, isRight: boolean) => void) => Promise<void>
): Promise<number> => {
  const rows: Row[] = []
  let wrong = 0
  try {
    await fill((row, isRight) => {
      say(lineOf(row))
      rows.push(row)
      if (!isRight) wrong++
    })
    replaceRows(table, rows)
  } catch (error) {
    say(`not run: ${messageOf(error)}`)
    wrong++
  }
  return wrong
}
