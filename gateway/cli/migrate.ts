// Brings the schema of the database up to the version that this gateway needs.
import type { Add, Cli, Report } from './command.ts'
import { withDatabase } from './open-store.ts'

export const addMigrate: Add = (program, define) =>
  define(
    program,
    'migrate',
    migrate,
    'bring the database schema up to date (the gateway also does this when it starts)',
    ['migrate']
  )

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
