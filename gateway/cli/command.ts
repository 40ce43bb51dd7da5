// Runs a command and reports its result: exit code 0 for success, 1 for findings, 2 if it could not run; never a stack trace.
import type { Command } from 'commander'
import { EnvFileError, withEnvFile } from '../settings/env-file.ts'
import type { Environment } from '../settings/reader.ts'
import { createTerminal, plain, type Terminal, type TerminalSize, wrap } from './terminal.ts'

export interface Report {
  /** Whether the command found a problem: exit code 1. */
  readonly found?: boolean
  /** What `--json` prints. */
  readonly json: unknown
  /** The text for people, without a line break at the end. */
  readonly text: (terminal: Terminal) => string
  /** The text is not a result and therefore goes to standard error. */
  readonly isMessage?: boolean
}

/** The command could not run: exit code 2. Each detail is printed on a line of its own. */
export class CannotRun extends Error {
  readonly details: readonly string[]

  constructor(message: string, details: readonly string[] = []) {
    super(message)
    this.name = 'CannotRun'
    this.details = details
  }
}

/** The parts of the process that a command may use. */
export interface Cli {
  readonly environment: Environment
  /** Read beside the environment if it is there and --env-file names no other. */
  readonly envFile?: string
  readonly stdin: NodeJS.ReadableStream
  readonly stdout: NodeJS.WritableStream & TerminalSize
  readonly stderr: NodeJS.WritableStream & TerminalSize
  setExitCode(code: 0 | 1 | 2): void
}

export const examplesText = (examples: readonly string[]): string =>
  `\nExamples:\n${examples.map(line => `  portaria ${line}`).join('\n')}`

/** Adds a command to the program. */
export type Add = (program: Command, define: ReturnType<typeof defining>, cli: Cli) => void

/** Registers a command with what all commands share: `--json`, examples in its help, and settings from the file of variables. */
export const defining =
  (cli: Cli) =>
  <Given extends unknown[]>(
    parent: Command,
    usage: string,
    work: (cli: Cli, ...given: Given) => Promise<Report>,
    summary: string,
    examples: readonly string[]
  ): Command =>
    parent
      .command(usage)
      .description(summary)
      .option('--json', 'print JSON instead of text')
      .addHelpText('after', examplesText(examples))
      .action(run(cli, work))

/** Does the work of a command and prints the report; anything it throws becomes one readable message. */
const run = <Given extends unknown[]>(cli: Cli, work: (cli: Cli, ...given: Given) => Promise<Report>) =>
  async function (this: Command, ...given: Given): Promise<void> {
    const { json = false, envFile } = this.optsWithGlobals<{ json?: boolean; envFile?: string }>()
    try {
      const environment = withEnvFile(cli.environment, envFile, cli.envFile)
      const report = await work({ ...cli, environment }, ...given)
      const output = report.isMessage === true && !json ? cli.stderr : cli.stdout
      const terminal = createTerminal(output, cli.environment)
      output.write(`${json ? JSON.stringify(report.json, null, 2) : report.text(terminal)}\n`)
      cli.setExitCode(report.found === true ? 1 : 0)
    } catch (error) {
      const failure = error instanceof CannotRun ? error : new CannotRun(reasonOf(error))
      reportFailure(cli, json, failure)
    }
  }

export const reportFailure = (cli: Cli, json: boolean, { message, details }: CannotRun): void => {
  cli.setExitCode(2)
  if (json) {
    cli.stdout.write(`${JSON.stringify({ error: message, details }, null, 2)}\n`)
    return
  }
  const terminal = createTerminal(cli.stderr, cli.environment)
  const [first = '', ...more] = wrap(plain(message), terminal.width)
  cli.stderr.write(`${[terminal.red(first), ...more, ...details.map(plain)].join('\n')}\n`)
}

const reasonOf = (error: unknown): string => {
  if (error instanceof EnvFileError) return error.message
  const message = error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : ''
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : ''
  return message === '' ? `The command failed${code}` : `The command failed: ${message}${code}`
}
