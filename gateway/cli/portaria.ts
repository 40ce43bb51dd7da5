// Starts the command line in a process of its own.
import { DEFAULT_ENV_FILE } from '../settings/env-file.ts'
import type { Cli } from './command.ts'
import { runProgram } from './program.ts'

const cli: Cli = {
  environment: process.env,
  envFile: DEFAULT_ENV_FILE,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  setExitCode(code) {
    process.exitCode = code
  }
}

// A reader that needs only the first lines (`| head`) closes the pipe, which is not an error.
process.stdout.on('error', () => process.exit())

await runProgram(cli, process.argv.slice(2))
