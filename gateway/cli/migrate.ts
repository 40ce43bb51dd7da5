// Brings the schema of the database up to the version that this gateway needs.
import type { Command } from 'commander'
import { addCommand, type Cli, type Report, run } from './command.ts'
import { withDatabase } from './open-store.ts'

export const addMigrate = (program: Command, cli: Cli): void => {
  addCommand(program, 'migrate', 'bring the database schema up to date (the gateway also does this when it starts)', [
    'migrate'
  ]).action(run(cli, migrate))
}

const migrate = ({ environment }: Cli): Promise<Report> =>
  withDatabase(
    environment,
    async database => {
      const { migrations } = await import('../../migrations/index.ts')
      const names = migrations.map(({ name }) => name)
      return {
        json: { ok: true, embedded: database.embedded, migrations: names },
        text: ({ green }) =>
          green(`The schema is up to date: ${names.length} migrations, the last one is ${names.at(-1)}.`)
      }
    },
    { create: true }
  )
