// Starts one Postgres for all files of a run, with a database that has the schema, of which each test has copies.
import type { Test } from 'tap'
import { openDatabase } from '../../gateway/store/database.ts'
import { startOwnPostgres, TEMPLATE_DATABASE } from './postgres.ts'
import { quiet } from './quiet.ts'

/** Several gateways of several files; and nothing that runs by itself over hundreds of databases. */
const SETTINGS = [
  'max_connections=400',
  'shared_buffers=64MB',
  'autovacuum=off',
  'wal_level=minimal',
  'max_wal_senders=0',
  // A copy of a database is written to the log too, which is not kept for long.
  'max_wal_size=128MB'
]

/** Resolves to its URL. */
export const startSharedPostgres = async (t: Pick<Test, 'teardown'>): Promise<string> => {
  const server = await startOwnPostgres(t, SETTINGS)
  const databaseUrl = await server.emptyDatabase()
  const database = await openDatabase({ databaseUrl, dataDir: '/nonexistent', log: quiet })
  await database.close()
  const name = new URL(databaseUrl).pathname.slice(1)
  await server.query(`ALTER DATABASE ${name} RENAME TO ${TEMPLATE_DATABASE}`)
  return server.url
}
