// Moves an installation from the embedded database to Postgres: people, access, sessions and the audit log.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { Environment } from '../settings/reader.ts'
import type { CopiedTable } from '../store/copy-database.ts'
import { addCommand, CannotRun, type Cli, type Report, run } from './command.ts'
import { storeSettings } from './command-settings.ts'
import { ACTOR, openAuditKeys, openOrFail } from './open-store.ts'
import { table } from './terminal.ts'

export const addMove = (program: Command, cli: Cli): void => {
  addCommand(program, 'move', 'copy the embedded database in DATA_DIR into the empty Postgres at DATABASE_URL', [
    'move',
    'move --json'
  ]).action(run(cli, move))
}

const move = async ({ environment }: Cli): Promise<Report> => {
  const { databaseUrl, dataDir } = storeSettings(environment)
  if (databaseUrl === undefined) throw new CannotRun('Set DATABASE_URL to the Postgres that receives the data')
  if (!existsSync(join(dataDir, 'postgres')))
    throw new CannotRun(
      `There is no embedded database in ${dataDir}: set DATA_DIR to the same value as for the gateway`
    )
  const { linkingKey } = await import('../store/audit-entry.ts')
  // Opened as a gateway would open it, exclusively: nothing may be written during the copy.
  const from = await openOrFail({ dataDir, role: 'gateway' }, 'The embedded database cannot be used')
  try {
    const to = await openOrFail({ databaseUrl, dataDir, role: 'command' }, 'The database cannot be used')
    try {
      await openAuditKeys(environment, from)
      // The move itself is an entry of the audit log.
      await from.read(linkingKey)
      return reportOf(await copyAll(from, to, environment), dataDir)
    } finally {
      await to.close()
    }
  } finally {
    await from.close()
  }
}

type Opened = Awaited<ReturnType<typeof openOrFail>>

const copyAll = async (from: Opened, to: Opened, environment: Environment): Promise<readonly CopiedTable[]> => {
  const { copyDatabase, CopyRefused } = await import('../store/copy-database.ts')
  const { createAuditLog } = await import('../store/audit-log.ts')
  try {
    const copied = await copyDatabase(from, to)
    await openAuditKeys(environment, to)
    await createAuditLog(to).append({ actor: ACTOR, action: 'database.move' })
    return copied
  } catch (error) {
    if (error instanceof CopyRefused) throw new CannotRun(error.message, ['Nothing was changed.'])
    throw error
  }
}

const reportOf = (copied: readonly CopiedTable[], dataDir: string): Report => ({
  json: { ok: true, tables: copied },
  text: terminal =>
    [
      terminal.green('Everything was copied. Start the gateway with DATABASE_URL from now on.'),
      `${dataDir} has not been changed; remove it once the gateway runs on Postgres.`,
      '',
      table(
        ['table', 'rows'],
        copied.map(({ table: name, rows }) => [name, String(rows)]),
        terminal
      )
    ].join('\n')
})
