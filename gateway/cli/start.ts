// Runs the gateway until a signal ends it; or the demo: the gateway, a directory, a cloud provider and backends in one process.
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { EnvFileError, withEnvFile } from '../settings/env-file.ts'
import { moduleUrl } from '../values/package-files.ts'
import { type Add, CannotRun, examplesText, reportFailure } from './command.ts'

export const addStart: Add = (program, _, cli) => {
  program
    .command('start')
    .description('run the gateway')
    .addHelpText('after', examplesText(['start', '--env-file /etc/portaria/portaria.env start']))
    .action(async function (this: Command) {
      const { envFile } = this.optsWithGlobals<{ envFile?: string }>()
      try {
        const environment = withEnvFile(cli.environment, envFile, cli.envFile)
        const { runGateway } = await import('../workers/process.ts')
        await runGateway(environment)
      } catch (error) {
        if (!(error instanceof EnvFileError)) throw error
        cli.stderr.write(`${error.message}\n`)
        cli.setExitCode(1)
      }
    })
}

export const addDemo: Add = (program, _, cli) => {
  program
    .command('demo')
    .description('run a gateway with sample people and backends; nothing is kept')
    .addHelpText('after', examplesText(['demo']))
    .action(async () => {
      const demo = moduleUrl('test/demo/demo.ts')
      if (existsSync(demo)) await import(demo.href)
      else reportFailure(cli, false, new CannotRun('The demo is not part of this installation; the package has it'))
    })
}
