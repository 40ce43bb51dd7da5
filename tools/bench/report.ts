// Prints a run as plain text: raw rows, and targets with verdicts.
import { arch, cpus, platform, release } from 'node:os'
import type { GroupResult } from './group.ts'
import type { Group, Options } from './options.ts'
import type { Spread } from './statistics.ts'
import { check, targets, type Verdict } from './targets.ts'

export interface Run {
  readonly at: string
  readonly machine: string
  readonly node: string
  readonly options: Pick<Options, 'quick' | 'rounds' | 'seconds' | 'warmUpSeconds' | 'connections'>
  readonly groups: Readonly<Partial<Record<Group, GroupResult>>>
}

export const describeMachine = (): string =>
  `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown CPU'}, ${platform()} ${release()} ${arch()}`

const digits = (value: number): string => {
  if (!Number.isFinite(value)) return '–'
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2)
}

const withSpread = (value: number | Spread): string =>
  typeof value === 'number' ? digits(value) : `${digits(value.median)} (${digits(value.min)}–${digits(value.max)})`

/** Columns as wide as their widest cell; the first one left, the others right. */
const textTable = (lines: readonly (readonly string[])[]): string => {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map(line => (line[column] ?? '').length)))
  const pad = (cell: string, column: number) =>
    column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)
  return lines.map(line => line.map(pad).join('  ').trimEnd()).join('\n')
}

const rawRows = (result: GroupResult): string => {
  if (result.rows.length === 0) return ''
  const columns = [...new Set(result.rows.flatMap(row => Object.keys(row.columns)))]
  return textTable([
    ['median (min–max)', ...columns],
    ...result.rows.map(row => [
      row.name,
      ...columns.map(column => {
        const cell = row.columns[column]
        return cell === undefined ? '' : withSpread(cell)
      })
    ])
  ])
}

const allFindings = (run: Run) => Object.values(run.groups).flatMap(group => group.findings)

export const verdicts = (run: Run): Verdict[] => {
  const findings = allFindings(run)
  return targets.map(target =>
    check(
      target,
      findings.find(finding => finding.target === target.id)
    )
  )
}

const targetTable = (run: Run): string => {
  const findings = allFindings(run)
  return textTable([
    ['target', 'asked', 'measured', 'verdict'],
    ...targets.map(target => {
      const finding = findings.find(each => each.target === target.id)
      const asked = `${target.direction === 'at most' ? '≤' : '≥'} ${target.bound} ${target.unit}`.trim()
      const note = finding?.note === undefined ? '' : `  [${finding.note}]`
      const measured = finding === undefined ? '' : withSpread(finding.value)
      return [target.title, asked, measured, check(target, finding) + note]
    })
  ])
}

export const reportText = (run: Run): string => {
  const { options } = run
  const groups = Object.entries(run.groups).map(([name, result]) =>
    [`## ${name}`, rawRows(result), ...result.notes.map(note => `- ${note}`)].filter(Boolean).join('\n')
  )
  return [
    `# Benchmark of ${run.at}`,
    `${run.machine}, Node ${run.node}`,
    `${options.rounds} interleaved rounds of ${options.seconds} s after ${options.warmUpSeconds} s of warm-up, ` +
      `${options.connections} connections${options.quick ? '; QUICK: these figures try the harness and mean nothing' : ''}`,
    ...groups,
    `## Targets\n${targetTable(run)}`
  ].join('\n\n')
}
