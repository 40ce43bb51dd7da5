// The command line runs as a child process, as an operator or a pipeline would run it.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

export interface CliResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** Standard output as JSON; fails when it is none. */
  json<T>(): T
}

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
  readonly cwd?: string
}

const ENTRY = join(import.meta.dirname, '../../gateway/cli/portaria.ts')
// With what was compiled before: a run of all commands starts hundreds of processes.
const KEPT = ['PATH', 'HOME', 'TMPDIR', 'NODE_COMPILE_CACHE'] as const

/** Nothing of the environment gets through but what a process needs, and a .env only from `cwd`; ends with the test. */
export const portaria = (args: readonly string[], { env = {}, input, cwd }: CliOptions = {}): Promise<CliResult> => {
  const kept = Object.fromEntries(KEPT.map(name => [name, process.env[name]]))
  const child = spawn(
    process.execPath,
    ['--', ENTRY, ...(cwd === undefined ? ['--env-file=/dev/null'] : []), ...args],
    {
      env: { ...kept, ...env },
      cwd
    }
  )
  t.teardown(() => child.kill('SIGKILL'))
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', chunk => {
    stdout += chunk
  })
  child.stderr.on('data', chunk => {
    stderr += chunk
  })
  child.stdin.on('error', () => undefined)
  child.stdin.end(input ?? '')
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve({ code, stdout, stderr, json: () => JSON.parse(stdout) }))
  })
}
