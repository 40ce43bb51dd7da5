// Runs the demo until Ctrl-C: the gateway with a directory, a cloud provider and backends, all in one process.
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { moduleUrl } from '../values/package-files.ts'
import { CannotRun, type Cli, examplesText, reportFailure } from './command.ts'

export const addDemo = (program: Command, _: unknown, cli: Cli): void => {
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
