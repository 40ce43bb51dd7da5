// Defines the command line: one command per file, and an exit code for every outcome.
import { Command, CommanderError, Help } from 'commander'
import { VERSION } from '../values/version.ts'
import { addAudit } from './audit.ts'
import { addCheck } from './check.ts'
import { addClient } from './client.ts'
import type { Cli } from './command.ts'
import { addDiff } from './diff.ts'
import { addDoctor } from './doctor/doctor.ts'
import { addEnv } from './env.ts'
import { addErase } from './erase.ts'
import { addExplain } from './explain.ts'
import { addGrant } from './grant.ts'
import { addGrants } from './grants.ts'
import { addKeys } from './keys.ts'
import { addMatrix } from './matrix.ts'
import { addMigrate } from './migrate.ts'
import { addMove } from './move.ts'
import { addRelink } from './relink.ts'
import { addReplay } from './replay.ts'
import { addToken } from './token.ts'
import { addUnlock } from './unlock.ts'

const COMMANDS = [
  addCheck,
  addExplain,
  addMatrix,
  addDiff,
  addReplay,
  addMigrate,
  addMove,
  addGrant,
  addGrants,
  addUnlock,
  addErase,
  addRelink,
  addClient,
  addKeys,
  addAudit,
  addToken,
  addDoctor,
  addEnv
]

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
      'Operate the gateway: validate, explain, compare and test its routes, and manage people, keys and data'
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
  for (const add of COMMANDS) add(program, cli)
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    // Requested help is a success; help that is printed because no command was given is not.
    const isFine = error.exitCode === 0 && error.code !== 'commander.help'
    cli.setExitCode(isFine ? 0 : 2)
  }
}
