// Runs the command line in this process, where a test needs neither a process nor its start.
import { PassThrough } from 'node:stream'
import { runProgram } from '../../gateway/cli/program.ts'
import type { CliOptions, CliResult } from './cli.ts'

/** As `portaria`; the environment holds nothing but `env`. */
export const portariaHere = async (
  args: readonly string[],
  { env = {}, input }: Omit<CliOptions, 'cwd'> = {}
): Promise<CliResult> => {
  const [stdout, stderr] = [collector(), collector()]
  const stdin = new PassThrough()
  stdin.end(input ?? '')
  let code: number | null = null
  const setExitCode = (given: number) => {
    code = given
  }
  await runProgram({ environment: env, stdin, stdout, stderr, setExitCode }, args)
  const text = textOf(stdout)
  return { code, stdout: text, stderr: textOf(stderr), json: () => JSON.parse(text) }
}

/** Takes everything at once. */
const collector = () => new PassThrough({ highWaterMark: Number.MAX_SAFE_INTEGER })
const textOf = (stream: PassThrough): string => String(stream.read() ?? '')
