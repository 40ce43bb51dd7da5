// Prints a run as plain text: raw rows, and targets with verdicts.
import { arch, cpus, platform, release } from 'node:os'
import type { Row } from './measure.ts'
import type { Options } from './options.ts'
import { median } from './statistics.ts'
import { type Finding, TARGETS, verdictOf } from './targets.ts'
import type { Results } from './world.ts'
import { CONNECTIONS } from './wrk.ts'

const digits = (value: number): string => {
  if (!Number.isFinite(value)) return '–'
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** One value, or the median with the least and the most of several. */
const spreadOf = (values: readonly number[] = []): string => {
  if (values.length < 2) return values.map(digits).join('')
  return `${digits(median(values))} (${digits(Math.min(...values))}–${digits(Math.max(...values))})`
}

/** Columns as wide as their widest cell; the first one left, the others right. */
const textTable = (lines: readonly (readonly string[])[]): string => {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map(line => (line[column] ?? '').length)))
  const pad = (cell: string, column: number) =>
    column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)
  return lines.map(line => line.map(pad).join('  ').trimEnd()).join('\n')
}

const rawRows = (rows: readonly Row[]): string => {
  const columns = [...new Set(rows.flatMap(({ figures }) => Object.keys(figures)))]
  const lines = rows.map(({ name, figures }) => [name, ...columns.map(column => spreadOf(figures[column]))])
  return rows.length === 0 ? '' : textTable([['median (min–max)', ...columns], ...lines])
}

const targetTable = (findings: readonly Finding[]): string =>
  textTable([
    ['target', 'asked', 'measured', 'verdict'],
    ...Object.entries(TARGETS).map(([id, { title, sign, bound, unit }]) => {
      const finding = findings.find(({ target }) => target === id)
      const verdict = finding === undefined ? 'not measured here' : verdictOf(finding)
      return [title, `${sign} ${bound} ${unit}`.trim(), spreadOf(finding?.values), verdict]
    })
  ])

export const reportText = (options: Options, results: ReadonlyMap<string, Results>): string => {
  const { rounds, seconds, warmUpSeconds, quick } = options
  const groups = [...results].map(([name, { rows, notes }]) =>
    [`## ${name}`, rawRows(rows), ...notes.map(note => `- ${note}`)].filter(Boolean).join('\n')
  )
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown CPU'}, ${platform()} ${release()} ${arch()}`
  return [
    `# Benchmark of ${new Date().toISOString()}`,
    `${machine}, Node ${process.version}`,
    `${rounds} interleaved rounds of ${seconds} s after ${warmUpSeconds} s of warm-up, ` +
      `${CONNECTIONS} connections${quick ? '; QUICK: these figures try the harness and mean nothing' : ''}`,
    ...groups,
    `## Targets\n${targetTable([...results.values()].flatMap(({ findings }) => findings))}`
  ].join('\n\n')
}
