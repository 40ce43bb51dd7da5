// Names the test files in the order that ends soonest: those that start many processes first.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What a file starts tells how long it takes; the import of the module that starts it tells what it starts. */
const WEIGHTS: readonly (readonly [imported: RegExp, weight: number])[] = [
  [/\/(?:gateway-process|running-demo)\.ts'/, 8],
  [/\/(?:cli|doctor)\.ts'/, 6],
  [/\/browser\.ts'/, 4],
  [/\/(?:partition-world|limiters|throttles|embedded-owner)\.ts'/, 3],
  [/\/openldap\.ts'/, 2],
  [/\/(?:postgres|gateway|redis)\.ts'/, 1]
]

/** Paths relative to `root`, heaviest first, then by name. */
export const testFiles = (root: string): string[] => {
  const weighed = globSync('test/**/*.test.ts', { cwd: root }).map(file => ({
    file,
    weight: weigh(readFileSync(join(root, file), 'utf8'))
  }))
  weighed.sort((a, b) => b.weight - a.weight || (a.file < b.file ? -1 : 1))
  return weighed.map(({ file }) => file)
}

const weigh = (source: string): number =>
  WEIGHTS.reduce((sum, [imported, weight]) => sum + (imported.test(source) ? weight : 0), 0)
