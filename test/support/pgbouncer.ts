// Starts a PgBouncer in front of a Postgres, with few connections to it, all of which a test may hold.
import { chmodSync, chownSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { serverOwner } from './postgres.ts'
import { findPgBouncer } from './provision.ts'
import { createServerProcess, makeFolder } from './server-process.ts'

/**
 * @param databaseUrl of the database that it leads to
 * @param settings of the section `[pgbouncer]`, `name = value`
 */
export const startPgBouncer = async (
  t: Pick<Test, 'teardown'>,
  databaseUrl: string,
  settings: readonly string[] = []
) => {
  const program = findPgBouncer()
  if (program === undefined) throw new Error('no PgBouncer found; set PORTARIA_TEST_PGBOUNCER')
  const { port: serverPort, pathname } = new URL(databaseUrl)
  const name = pathname.slice(1)
  const owner = serverOwner()
  const home = makeFolder(t, 'pgbouncer')
  const port = await freePort()
  const lines = [
    '[databases]',
    `${name} = host=127.0.0.1 port=${serverPort} user=postgres`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    ...settings
  ]
  writeFileSync(join(home, 'pgbouncer.ini'), `${lines.join('\n')}\n`)
  chmodSync(home, 0o755)
  if (owner !== undefined) chownSync(home, owner.uid, owner.gid)
  const url = `postgres://postgres@127.0.0.1:${port}/${name}`
  const connect = async () => {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => undefined)
    await client.connect()
    return client
  }
  const isUp = async () => {
    const client = await connect().catch(() => undefined)
    await client?.end()
    return client !== undefined
  }
  const args = [join(home, 'pgbouncer.ini')]
  const server = createServerProcess({ command: program, args, cwd: home, ...owner, isUp })
  t.teardown(() => server.end('SIGKILL'))
  await server.start()
  return {
    url,
    /** Holds so many of its connections in open transactions; resolves to what gives them back. */
    async hold(count: number) {
      const holders = await Promise.all(Array.from({ length: count }, connect))
      await Promise.all(holders.map(holder => holder.query('BEGIN')))
      return () => Promise.all(holders.map(holder => holder.end()))
    }
  }
}
