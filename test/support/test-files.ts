// Names the test files in the order that ends soonest: those that start many processes first.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'

/** What a file starts tells how long it takes; the import of the module that starts it tells what it starts. */
const WEIGHTS: readonly (readonly [imported: RegExp, weight: number])[] = [
  [/\/(?:gateway-process|running-demo)\.ts'/, 8],
  [/\/(?:cli|doctor)\.ts'/, 6],
  [/\/browser\.ts'/, 4],
  [/\/(?:partition-world|limiters|throttles|embedded-owner)\.ts'/, 3],
  [/\/openldap\.ts'/, 2],
  [/\/(?:postgres|gateway|redis)\.ts'/, 1]
]

/** A file says at its head that it holds answers to the clock of the machine: it wants a core, not just its share of one. */
const TIMED = /^\/\/ Timed by the clock of the machine\.$/m

/** All of them, or those named; paths relative to `root`, heaviest first, then by name. */
export const testFiles = (root: string, named?: readonly string[]) => {
  const weighed = (named ?? globSync('test/**/*.test.ts', { cwd: root })).map(file => {
    const path = resolve(root, file)
    // One that is not there fails when it is run.
    const source = existsSync(path) ? readFileSync(path, 'utf8') : ''
    return { file, weight: weigh(source), isTimed: TIMED.test(source) }
  })
  weighed.sort((a, b) => b.weight - a.weight || (a.file < b.file ? -1 : 1))
  const those = (timed: boolean) => weighed.filter(({ isTimed }) => isTimed === timed).map(({ file }) => file)
  // The patient wait for states, or measure their own time: they may run beside more than there are cores for.
  return { patient: those(false), timed: those(true) }
}

const weigh = (source: string): number =>
  WEIGHTS.reduce((sum, [imported, weight]) => sum + (imported.test(source) ? weight : 0), 0)
