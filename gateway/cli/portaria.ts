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
    return heard(process.stdout, endUnwritten)
  },
  get stderr() {
    // The exit code says the same.
    return heard(process.stderr, () => undefined)
  },
  setExitCode(code) {
    process.exitCode = code
  }
}

function heard(stream: NodeJS.WriteStream, onError: (error: NodeJS.ErrnoException) => void): NodeJS.WriteStream {
  return stream.listenerCount('error') === 0 ? stream.on('error', onError) : stream
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
