// Defines the command line: one command per file, and an exit code for every outcome.
import { Command, CommanderError, Help } from 'commander'
import { VERSION } from '../values/package-files.ts'
import { type Add, type Cli, defining } from './command.ts'

/** Commands by what a person wants to do. Each is loaded only if it may have been called. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, () => Promise<Add>>>>> = {
  'Run:': {
    start: async () => (await import('./start.ts')).addStart,
    demo: async () => (await import('./start.ts')).addDemo
  },
  'Set up:': {
    env: async () => (await import('./env.ts')).addEnv,
    completion: async () => (await import('./completion.ts')).addCompletion,
    check: async () => (await import('./check.ts')).addCheck,
    migrate: async () => (await import('./migrate.ts')).addMigrate,
    move: async () => (await import('./move.ts')).addMove
  },
  'Understand and compare routes:': {
    explain: async () => (await import('./explain.ts')).addExplain,
    matrix: async () => (await import('./matrix.ts')).addMatrix,
    diff: async () => (await import('./diff.ts')).addDiff,
    replay: async () => (await import('./replay.ts')).addReplay,
    doctor: async () => (await import('./doctor/doctor.ts')).addDoctor
  },
  'Manage people:': {
    grant: async () => (await import('./grant.ts')).addGrant,
    grants: async () => (await import('./grants.ts')).addGrants,
    unlock: async () => (await import('./unlock.ts')).addUnlock,
    relink: async () => (await import('./relink.ts')).addRelink,
    erase: async () => (await import('./erase.ts')).addErase,
    audit: async () => (await import('./audit.ts')).addAudit
  },
  'Manage programs and keys:': {
    client: async () => (await import('./client.ts')).addClient,
    keys: async () => (await import('./keys.ts')).addKeys,
    token: async () => (await import('./token.ts')).addToken
  }
}

const addCommands = async (program: Command, cli: Cli, args: readonly string[]): Promise<void> => {
  const define = defining(cli)
  const names = Object.values(GROUPS).flatMap(commands => Object.keys(commands))
  // A completion is that of all commands.
  const isCalled = !args.includes('completion') && names.some(name => args.includes(name))
  for (const [group, commands] of Object.entries(GROUPS)) {
    program.commandsGroup(group)
    for (const [name, load] of Object.entries(commands))
      if (!isCalled || args.includes(name)) (await load())(program, define, cli)
  }
}

const EXIT_CODES = `
Exit codes: 0 no problems, 1 problems found, 2 could not run.
Only doctor and token need a running gateway. Each command has its own --help.
Every command reads settings from the environment and from .env in the current directory;
what the environment sets counts.`

const describe = new Help()

/** Runs `portaria` with `args`. Never rejects because of anything a user can do. */
export const runProgram = async (cli: Cli, args: readonly string[]): Promise<void> => {
  const program = new Command('portaria')
  program
    .description(
      'Run and operate the gateway: validate, explain, compare and test its routes, and manage people, keys and data'
    )
    .version(VERSION, '--version', 'print the version of the gateway')
    .option('--env-file <file>', 'read settings from this file too (default: .env, if there is one)')
    .exitOverride()
    .configureOutput({ writeOut: text => cli.stdout.write(text), writeErr: text => cli.stderr.write(text) })
    .configureHelp({
      showGlobalOptions: true,
      optionDescription: option => `${option.mandatory ? 'required: ' : ''}${describe.optionDescription(option)}`
    })
    .addHelpText('after', EXIT_CODES)
  try {
    await addCommands(program, cli, args)
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    // Requested help is a success; help that is printed because no command was given is not.
    cli.setExitCode(error.exitCode === 0 ? 0 : 2)
  }
}
