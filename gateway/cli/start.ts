// Runs the gateway until a signal ends it.
import type { Command } from 'commander'
import { EnvFileError, withEnvFile } from '../settings/env-file.ts'
import type { Environment } from '../settings/reader.ts'
import { type Cli, examplesText } from './command.ts'

export const addStart = (program: Command, _: unknown, cli: Cli): void => {
  program
    .command('start')
    .description('run the gateway')
    .addHelpText('after', examplesText(['start', '--env-file /etc/portaria/portaria.env start']))
    .action(async function (this: Command) {
      const environment = environmentOf(cli, this.optsWithGlobals<{ envFile?: string }>().envFile)
      if (environment === undefined) return
      const { runGateway } = await import('../workers/process.ts')
      await runGateway(environment)
    })
}

const environmentOf = (cli: Cli, envFile: string | undefined): Environment | undefined => {
  try {
    return withEnvFile(cli.environment, envFile, cli.envFile)
  } catch (error) {
    if (!(error instanceof EnvFileError)) throw error
    cli.stderr.write(`${error.message}\n`)
    cli.setExitCode(1)
    return undefined
  }
}
