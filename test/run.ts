// Every test file has run (or those named as arguments), and the last line says how many assertions passed and failed.
import { availableParallelism } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createEndings } from './support/endings.ts'
import { makeMemoryFolder } from './support/memory-folder.ts'
import { SHARED_POSTGRES } from './support/postgres.ts'
import { provision } from './support/provision.ts'
import { startSharedPostgres } from './support/shared-postgres.ts'
import { testFiles } from './support/test-files.ts'
import { type FileResult, runTestFile } from './support/test-process.ts'

const ROOT = dirname(import.meta.dirname)
const CORES = availableParallelism()
/** A file waits for a third of its time, for a server or a timer, and several at once now and then: two more keep the cores busy. */
const LANES = CORES + 2
/** For a file, on a machine that is busy with other things too. TAP_TIMEOUT in seconds changes it. */
const LIMIT_S = 600
/** A file that lives on for longer after its last assertion holds the run up: that is said. */
const LINGERING_MS = 3000

const main = async (): Promise<void> => {
  try {
    provision(line => console.log(line))
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return finish({ passed: 0, failed: 1 })
  }
  const named = process.argv.slice(2)
  const files = testFiles(ROOT, named.length === 0 ? undefined : named)
  const t = createEndings()
  const folder = makeMemoryFolder()
  if (folder !== undefined) process.env.TMPDIR = folder.path
  try {
    const postgres = await startSharedPostgres(t)
    finish(await runAll(files, postgres))
  } finally {
    await t.end()
    folder?.remove()
  }
}

const runAll = async ({ patient, timed }: ReturnType<typeof testFiles>, postgres: string) => {
  const total = { passed: 0, failed: 0 }
  const limitS = Number(process.env.TAP_TIMEOUT ?? LIMIT_S)
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort())
  const options = { cwd: ROOT, env: environment(limitS, postgres), limitMs: limitS * 1000, signal: stopping.signal }
  let done = 0
  const work = async (waiting: string[]) => {
    for (let file = waiting.shift(); file !== undefined && !stopping.signal.aborted; file = waiting.shift()) {
      const result = await runTestFile(file, options)
      show(++done, file, result)
      total.passed += result.passed
      total.failed += result.failed
    }
  }
  const run = async (files: readonly string[], lanes: number) => {
    const waiting = [...files]
    await Promise.all(Array.from({ length: lanes }, () => work(waiting)))
  }
  await run(patient, LANES)
  // What is promised in milliseconds is tested beside no more than there are cores for.
  await run(timed, CORES)
  console.log(`1..${patient.length + timed.length}`)
  return total
}

const environment = (limitS: number, postgres: string): NodeJS.ProcessEnv => {
  const bin = join(ROOT, 'node_modules/.bin')
  return {
    // Not the gateway's: code is kept for the flags of V8 that it was compiled under, and the gateway sets some as it starts.
    // In one place, each would refuse and replace what the other keeps.
    NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/portaria-tests'),
    ...process.env,
    TAP_TIMEOUT: String(limitS),
    [SHARED_POSTGRES]: postgres,
    // What a test starts as `node` is the Node of this project, whatever the machine has.
    PATH: `${bin}${delimiter}${process.env.PATH ?? ''}`
  }
}

/** In one piece, so that files that run at the same time do not mix. */
const show = (number: number, file: string, { failed, durationMs, lingeredMs, report }: FileResult) => {
  const lingered = lingeredMs < LINGERING_MS ? '' : `, ${Math.round(lingeredMs)}ms of it with something left open`
  const line = `${failed === 0 ? 'ok' : 'not ok'} ${number} - ${file} # time=${Math.round(durationMs)}ms${lingered}`
  console.log([line, ...report.map(text => `    ${text}`)].join('\n'))
}

const finish = ({ passed, failed }: { readonly passed: number; readonly failed: number }): void => {
  console.log(`${passed} passed, ${failed} failed`)
  process.exitCode = failed === 0 ? 0 : 1
}

await main()
