// Compares two directories of route files by what they allow, not by how they are written.
import { lineOf } from '../explain/explain.ts'
import type { Add, Cli, Report } from './command.ts'
import { decideOptions } from './command-settings.ts'
import { type Comparison, compareTables, type Difference } from './compare-tables.ts'
import { readTable } from './read-routes.ts'
import { plain, type Terminal } from './terminal.ts'

export const addDiff: Add = (program, define) =>
  define(program, 'diff', diff, 'compare two directories of route files: what becomes more permissive, what stricter', [
    'diff /etc/portaria/routes upstream-config',
    'diff old new --json'
  ])
    .argument('<old>', 'directory of the old route files')
    .argument('<new>', 'directory of the new route files')
    .addHelpText(
      'after',
      '\nThe exit code is 1 if anything became more permissive, or if not everything could be compared, so that a pipeline can\nrequire a review.'
    )

const diff = async ({ environment }: Cli, before: string, after: string): Promise<Report> => {
  const [old, next] = [await readTable(before), await readTable(after)]
  const comparison = compareTables(old, next, decideOptions(environment))
  const { opened, notes, isComplete } = comparison
  return {
    found: opened.length > 0 || notes.some(({ looser }) => looser) || !isComplete,
    json: comparison,
    text: terminal => textOf(comparison, terminal)
  }
}

const textOf = ({ opened, closed, notes, isComplete }: Comparison, terminal: Terminal): string => {
  const { red, yellow, green, dim } = terminal
  const lines = [
    ...opened.flatMap(difference => [red(plain(`OPEN    ${difference.text}`)), dim(plain(detail(difference)))]),
    ...notes.filter(({ looser }) => looser).map(({ text }) => red(plain(`LOOSER  ${text}`))),
    ...closed.flatMap(difference => [yellow(plain(`CLOSED  ${difference.text}`)), dim(plain(detail(difference)))]),
    ...notes.filter(({ looser }) => !looser).map(({ text }) => plain(`CHANGED ${text}`))
  ]
  if (!isComplete) {
    lines.push(yellow('There are too many combinations of routes: every route was compared, but not every overlap.'))
  }
  return lines.length === 0
    ? green('Nothing changed: both allow the same requests to the same people.')
    : lines.join('\n')
}

const detail = ({ example, was, now }: Difference): string =>
  `        e.g. ${example.method} ${example.path}: was ${side(was)}, is ${side(now)}`

const side = ({ route, place }: Difference['was']): string =>
  route === undefined || place === undefined ? 'on no route' : `"${route}" (${lineOf(place)})`
