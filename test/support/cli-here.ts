// Runs the command line in this process, where a test needs neither a process nor its start.
import { PassThrough } from 'node:stream'
import type { Test } from 'tap'
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

/** A command in words that contain no blanks, its exit code, and what it says; FOLDER stands for a folder of route files. */
type Said = readonly [command: string, code: number, ...says: RegExp[]]

export const checkSaid = async (
  t: Test,
  folder: string,
  rows: readonly Said[],
  options: Parameters<typeof portariaHere>[1] = {}
): Promise<void> => {
  for (const [command, code, ...says] of rows) {
    const args = command.split(' ').map(word => (word === 'FOLDER' ? folder : word))
    const result = await portariaHere(args, options)
    t.equal(result.code, code, `${command}: exit code`)
    for (const pattern of says) t.match(result.stdout + result.stderr, pattern, command)
    if (code === 2) t.equal(result.stdout, '', `${command}: what cannot run is no result`)
    t.notMatch(result.stderr, /\n\s+at /, `${command}: no stack trace`)
  }
}

/** Takes everything at once. */
const collector = () => new PassThrough({ highWaterMark: Number.MAX_SAFE_INTEGER })
const textOf = (stream: PassThrough): string => String(stream.read() ?? '')
