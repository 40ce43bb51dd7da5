// Runs programs to their end, beside the gateway of this process, which they must not block.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

interface Surroundings {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
  /** Of its standard input. */
  readonly input?: string
  readonly timeout?: number
}

const run = async (program: string, words: readonly string[], { input = '', ...options }: Surroundings) => {
  const running = promisify(execFile)(program, words, { ...options, maxBuffer: 64 * 2 ** 20 })
  // It may end without reading that.
  running.child.stdin?.on('error', () => undefined).end(input)
  return running
}

/** What it writes to both outputs; rejects with its errors if it fails. */
export const outputOf = async (
  program: string,
  words: readonly string[],
  surroundings: Surroundings = {}
): Promise<string> => {
  const { stdout, stderr } = await run(program, words, surroundings)
  return stdout + stderr
}

export const stdoutOf = async (
  program: string,
  words: readonly string[],
  surroundings: Surroundings = {}
): Promise<string> => (await run(program, words, surroundings)).stdout

/** Of its standard output. */
export const lastLine = async (...what: Parameters<typeof stdoutOf>): Promise<string> =>
  (await stdoutOf(...what)).trim().split('\n').at(-1) ?? ''
