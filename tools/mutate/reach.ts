// Measures which parts of the gateway a test file runs, with V8's coverage, and keeps that until the file or what it needs changes.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Graph, ROOT } from './graph.ts'
import { groupEnded, spawnGroup } from './process-group.ts'

const CACHE = join(ROOT, 'node_modules/.cache/portaria-mutate')
const LIMIT_MS = 600_000

/** A range and how often it ran; the innermost range around an offset counts. */
type Range = readonly [start: number, end: number, count: number]

export interface Reach {
  readonly test: string
  readonly passed: boolean
  readonly tookMs: number
  /** By the module's path from the root, the ranges of each process. */
  readonly modules: Readonly<Record<string, readonly (readonly Range[])[]>>
}

interface V8Coverage {
  readonly result: readonly {
    readonly url: string
    readonly functions: readonly {
      readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[]
    }[]
  }[]
}

const measuring = new Map<string, Promise<Reach>>()

/** What one test file runs, and whether it passed at all. */
export const measureReach = (graph: Graph, test: string): Promise<Reach> => {
  const reach = measuring.get(test) ?? recallReach(graph, test)
  measuring.set(test, reach)
  return reach
}

const recallReach = async (graph: Graph, test: string): Promise<Reach> => {
  mkdirSync(CACHE, { recursive: true })
  const kept = join(CACHE, `${test.replaceAll('/', '-')}-${graph.fingerprint(test).slice(0, 16)}.json`)
  if (existsSync(kept)) return JSON.parse(readFileSync(kept, 'utf8')) as Reach
  const first = await runWithCoverage(test)
  // Other work on the machine may have been to blame.
  const reach = first.passed ? first : await runWithCoverage(test)
  if (reach.passed) writeFileSync(kept, JSON.stringify(reach))
  return reach
}

const runWithCoverage = async (test: string): Promise<Reach> => {
  const folder = mkdtempSync(join(tmpdir(), 'portaria-mutate-'))
  const startedAt = performance.now()
  const child = spawnGroup(process.execPath, [test], {
    cwd: ROOT,
    stdio: 'ignore',
    env: { ...process.env, NODE_V8_COVERAGE: folder, TAP_TIMEOUT: '0' }
  })
  const code = await groupEnded(child, AbortSignal.timeout(LIMIT_MS))
  const tookMs = performance.now() - startedAt
  const modules: Record<string, Range[][]> = {}
  // The test's own process, and those that it started.
  for (const file of readdirSync(folder)) {
    const { result } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as V8Coverage
    for (const { url, functions } of result) {
      const module = url.startsWith('file:') ? relative(ROOT, fileURLToPath(url)) : ''
      if (!module.startsWith('gateway/')) continue
      const ranges = functions.flatMap(each => each.ranges)
      const processes = modules[module] ?? []
      processes.push(ranges.map(range => [range.startOffset, range.endOffset, range.count] as const))
      modules[module] = processes
    }
  }
  rmSync(folder, { recursive: true, force: true })
  return { test, passed: code === 0, tookMs, modules }
}

/**
 * Whether the test runs what begins at the offset, in any of its processes. What V8 counts of `a ?? b` apart begins at the
 * operator, which is run with `a`.
 */
export const reaches = ({ modules }: Reach, module: string, offset: number): boolean =>
  (modules[module] ?? []).some(ranges => countAt(ranges, offset) > 0 || countAt(ranges, offset - 2) > 0)

const countAt = (ranges: readonly Range[], offset: number): number => {
  let narrowest: Range = [0, Number.POSITIVE_INFINITY, 0]
  for (const range of ranges) {
    const [start, end] = range
    if (start <= offset && offset < end && end - start <= narrowest[1] - narrowest[0]) narrowest = range
  }
  return narrowest[2]
}
