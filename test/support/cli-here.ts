// The command line runs in this process, where a test needs neither a process nor its start.
import { PassThrough, Writable } from 'node:stream'
import { runProgram } from '../../gateway/cli/program.ts'
import type { CliOptions, CliResult } from './cli.ts'

/** As `portaria`; the environment holds nothing but `env`. */
export const portariaHere = async (
  args: readonly string[],
  { env = {}, input }: Omit<CliOptions, 'cwd'> = {}
): Promise<CliResult> => {
  const [out, err] = [collector(), collector()]
  const stdin = new PassThrough()
  stdin.end(input ?? '')
  let code: number | null = null
  const setExitCode = (given: number) => {
    code = given
  }
  await runProgram({ environment: env, stdin, stdout: out.stream, stderr: err.stream, setExitCode }, args)
  const stdout = out.text()
  return { code, stdout, stderr: err.text(), json: () => JSON.parse(stdout) }
}

const collector = () => {
  let text = ''
  const stream = new Writable({
    write(chunk, _, done) {
      text += String(chunk)
      done()
    }
  })
  return { stream, text: () => text }
}
