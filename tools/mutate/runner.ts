// Runs a test with a mutant: in a warm worker when it needs no other process, otherwise in a process of its own.
import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Graph, ROOT, scriptOf } from './graph.ts'
import type { Mutant } from './mutants.ts'
import { groupEnded, spawnGroup } from './process-group.ts'
import { measureReach } from './reach.ts'
import type { Order, Outcome, Report } from './worker.ts'

export interface Runner {
  /** Undefined mutant: the module as it is. */
  run(test: string, module: string, mutant: Mutant | undefined): Promise<Outcome | 'endless'>
  close(): void
}

const FLAGS = ['--disable-warning=ExperimentalWarning', '--max-old-space-size=700']
const MAX_RUNS = 400
const CHECK_MS = 250
/** What an endless loop may use beyond what the test needs without a mutant. */
const SPARE_CPU_MS = 3000
/** A mutant that so many examples of a property do not tell from the original is left to other tests. */
const FEW_EXAMPLES = 400
const MAX_EXAMPLES = 1_000_000
const MAX_WALL_MS = 300_000
/** What a test that starts processes may wait beyond several times what it needs without a mutant. */
const SPARE_WALL_MS = 60_000

const slowTests = new WeakMap<Graph, Map<string, boolean>>()

/** Whether a test starts processes: servers, gateways, commands. */
export const isSlow = (graph: Graph, test: string): boolean => {
  const known = slowTests.get(graph) ?? new Map<string, boolean>()
  slowTests.set(graph, known)
  const answer =
    known.get(test) ??
    [...graph.needs(test)].some(
      file => file.startsWith('test/') && /from 'node:child_process'/.test(readFileSync(join(ROOT, file), 'utf8'))
    )
  known.set(test, answer)
  return answer
}

export const createRunner = (graph: Graph): Runner => {
  const fresh = new Map<string, readonly string[]>()
  const neededMs = new Map<string, number>()
  /** Those that ask how many examples they had. */
  const thorough = new Set<string>()
  let worker: ChildProcess | undefined
  let runs = 0

  const close = () => {
    worker?.kill('SIGKILL')
    worker = undefined
  }
  const ready = async (): Promise<ChildProcess> => {
    if (runs++ % MAX_RUNS === 0) close()
    if (worker?.connected) return worker
    worker = fork(join(import.meta.dirname, 'worker.ts'), [], {
      execArgv: FLAGS,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      // The whole life of the worker is one test to tap, and would end after 30 s in the middle of some mutant.
      env: { ...process.env, TAP_TIMEOUT: '0' }
    })
    await reported(worker, Number.POSITIVE_INFINITY)
    return worker
  }
  let last: Promise<unknown> = Promise.resolve()
  const runInWorker = (order: Order): Promise<Outcome | 'endless'> => {
    const run = last.then(() => runNow(order))
    last = run.catch(() => undefined)
    return run
  }
  const runNow = async (order: Order): Promise<Outcome | 'endless'> => {
    const child = await ready()
    const limitMs = SPARE_CPU_MS + 4 * (neededMs.get(order.test) ?? MAX_WALL_MS)
    child.send(order)
    const report = await reported(child, limitMs)
    if (report === undefined) {
      close()
      return 'endless'
    }
    if (report.outcome === 'passed') neededMs.set(order.test, Math.max(report.cpuMs, neededMs.get(order.test) ?? 0))
    return report.outcome === 'ready' ? 'failed' : report.outcome
  }
  /** What must be loaded anew for the module in the test. */
  const freshFor = (test: string, module: string): readonly string[] => {
    const key = `${test} ${module}`
    const known = fresh.get(key) ?? [...graph.needs(test)].filter(file => graph.needs(file).has(module))
    fresh.set(key, known)
    return known
  }
  const run: Runner['run'] = async (test, module, mutant) => {
    const script = scriptOf(module)
    const source =
      mutant === undefined ? script : script.slice(0, mutant.start) + mutant.replacement + script.slice(mutant.end)
    if (isSlow(graph, test)) {
      const { tookMs } = await measureReach(graph, test)
      return runAlone(test, { module, source }, SPARE_WALL_MS + Math.ceil(6 * tookMs))
    }
    const order = { test, module, source, fresh: [...freshFor(test, module), test] }
    const runOnce = (examples: number) => runInWorker({ ...order, examples })
    const outcome = await runOnce(thorough.has(test) ? MAX_EXAMPLES : FEW_EXAMPLES)
    if (mutant !== undefined || outcome === 'passed' || thorough.has(test)) return outcome
    thorough.add(test)
    return runOnce(MAX_EXAMPLES)
  }
  return { run, close }
}

/** Undefined: it used more of the processor than it may, waited for far too long, or died. */
const reported = (child: ChildProcess, limitCpuMs: number): Promise<Report | undefined> =>
  new Promise(resolve => {
    const [startedAt, usedMs] = [performance.now(), cpuMsOf(child)]
    const settle = (report: Report | undefined) => {
      clearInterval(timer)
      child.off('message', take)
      child.off('exit', fail)
      resolve(report)
    }
    const fail = () => settle(undefined)
    // tap, too, speaks on this channel.
    const take = (message: unknown) => {
      if (typeof message === 'object' && message !== null && 'outcome' in message) settle(message as Report)
    }
    const timer = setInterval(() => {
      if (cpuMsOf(child) - usedMs > limitCpuMs || performance.now() - startedAt > MAX_WALL_MS) fail()
    }, CHECK_MS)
    child.on('message', take)
    child.once('exit', fail)
  })

/** As Linux counts it, in ticks of 10 ms: what other work on the machine takes is not this test's. */
const cpuMsOf = ({ pid }: ChildProcess): number => {
  try {
    const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(11, 13) ?? []
    return (Number(user) + Number(system)) * 10
  } catch {
    return 0
  }
}

/** The processes that the test starts run the mutant too. */
const runAlone = async (
  test: string,
  mutant: { readonly module: string; readonly source: string },
  limitMs: number
): Promise<Outcome | 'endless'> => {
  const hook = join(import.meta.dirname, 'substitute.ts')
  const child = spawnGroup(process.execPath, [test], {
    cwd: ROOT,
    stdio: 'ignore',
    env: {
      ...process.env,
      TAP_BAIL: '1',
      // tap's own limit of 30 s is short where other work slows the machine down.
      TAP_TIMEOUT: '0',
      PORTARIA_MUTANT: JSON.stringify(mutant),
      NODE_OPTIONS: `--disable-warning=ExperimentalWarning --import=${hook}`
    }
  })
  const code = await groupEnded(child, AbortSignal.timeout(limitMs))
  return code === 0 ? 'passed' : code === null ? 'endless' : 'failed'
}
