// Runs the command line as a child process, as an operator or a pipeline would.
import { join } from 'node:path'
import t from 'tap'
import { spawnNode } from './server-process.ts'

export type CliResult = Awaited<ReturnType<typeof portaria>>

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
  readonly cwd?: string
}

const ENTRY = join(import.meta.dirname, '../../gateway/cli/portaria.ts')

/** Nothing of the environment gets through but what a process needs, and a .env only from `cwd`; ends with the test. */
export const portaria = async (args: readonly string[], { env = {}, input = '', cwd }: CliOptions = {}) => {
  const own = cwd === undefined ? ['--env-file=/dev/null'] : []
  const { ended, stdout, stderr } = spawnNode(t, ['--', ENTRY, ...own, ...args], { env, cwd, input })
  const code = await ended
  return {
    code: typeof code === 'number' ? code : null,
    stdout: stdout(),
    stderr: stderr(),
    /** Standard output as JSON; fails when it is none. */
    json: <T>(): T => JSON.parse(stdout())
  }
}
