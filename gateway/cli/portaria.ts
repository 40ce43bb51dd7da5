// Starts the command line in a process of its own.
import { DEFAULT_ENV_FILE } from '../settings/env-file.ts'
import { useCompiledCode } from '../workers/compiled-code.ts'
import type { Cli } from './command.ts'

const cli: Cli = {
  environment: process.env,
  envFile: DEFAULT_ENV_FILE,
  // Opened by the first command that uses them, because the log of the gateway writes to the descriptors itself.
  get stdin() {
    return process.stdin
  },
  get stdout() {
    if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', endUnwritten)
    return process.stdout
  },
  get stderr() {
    return process.stderr
  },
  setExitCode(code) {
    process.exitCode = code
  }
}

/** A reader that needs only the first lines (`| head`) closes the pipe, which is not an error. */
function endUnwritten({ code }: NodeJS.ErrnoException): never {
  if (code === 'EPIPE') process.exit()
  process.stderr.write(`The result could not be written (${code})\n`)
  process.exit(2)
}

useCompiledCode()
const { runProgram } = await import('./program.ts')
await runProgram(cli, process.argv.slice(2))
