// Writes the lab's results into a table of a page, replacing their earlier rows.
import { readFileSync, writeFileSync } from 'node:fs'

interface Table {
  /** The line above it; both are added at the end of the page if it has none. */
  readonly heading: string
  readonly columns: readonly string[]
}

type Row = readonly string[]

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const lineOf = (row: Row): string => `| ${row.map(cell).join(' | ')} |`
const rowOf = (line: string): Row =>
  line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map(text => text.trim().replaceAll('\\|', '|'))

/** Replaces rows for which `isOld` is true in place; new ones go to the end of the table. */
export const replaceRows = (page: string, table: Table, rows: readonly Row[], isOld: (row: Row) => boolean): void => {
  const lines = readFileSync(page, 'utf8').trimEnd().split('\n')
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
  writeFileSync(page, `${[...lines.slice(0, start), ...kept, ...lines.slice(end)].join('\n')}\n`)
}
