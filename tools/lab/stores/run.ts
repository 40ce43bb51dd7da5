// Tries versions of Postgres and Redis, PgBouncer and HAProxy with real gateways: `npm run lab -- stores`.
import { execFileSync } from 'node:child_process'
import type { Test } from 'tap'
import { replaceRows } from '../table.ts'
import { poolerCases, postgresCases } from './postgres-cases.ts'
import { haproxyCases, redisCases } from './redis-cases.ts'
import { POSTGRES_VERSIONS, REDIS_VERSIONS, redisVersion } from './servers.ts'
import type { Store, StoreCase } from './store-case.ts'

const TABLE = { heading: '## Stores', columns: ['store', 'version', 'what was tried', 'result'] }

const STORES: readonly Store[] = [
  ...POSTGRES_VERSIONS.map(({ name, version, bin }) => ({
    name,
    start: async () => ({ version, cases: postgresCases(await bin()) })
  })),
  { name: 'PgBouncer', start: async () => ({ version: versionOf('pgbouncer', '-V'), cases: poolerCases }) },
  ...REDIS_VERSIONS.map(({ name, program }) => ({
    name,
    start: async () => {
      const path = await program()
      return { version: await redisVersion(path), cases: redisCases(path) }
    }
  })),
  { name: 'HAProxy before Redis', start: async () => ({ version: versionOf('haproxy', '-v'), cases: haproxyCases }) }
]

const versionOf = (program: string, word: string): string =>
  /\d+\.\d+\.\d+/.exec(execFileSync(program, [word], { encoding: 'utf8' }))?.[0] ?? ''

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const tryCase = async ({ run }: StoreCase): Promise<string> => {
  const endings: (() => unknown)[] = []
  try {
    const faults = await run({ teardown: (action: () => unknown) => void endings.unshift(action) } as unknown as Test)
    return faults.length === 0 ? 'works' : `DIFFERS: ${faults.join('; ')}`
  } catch (error) {
    return `FAILED: ${textOf(error)}`
  } finally {
    for (const end of endings) await end()
  }
}

/** @param names of stores, or parts of names; none: all. Resolves to how many cases did not work */
export const runStores = async (names: readonly string[], page: string): Promise<number> => {
  let failed = 0
  const wanted = STORES.filter(({ name }) => names.length === 0 || names.some(part => name.includes(part)))
  for (const { name, start } of wanted) {
    const rows: string[][] = []
    try {
      const { version, cases } = await start()
      for (const one of cases) {
        const row = [name, version, one.name, await tryCase(one)]
        process.stdout.write(`| ${row.join(' | ')} |\n`)
        rows.push(row)
      }
    } catch (error) {
      rows.push([name, '', '', `not run: ${textOf(error)}`])
      process.stdout.write(`${name}: ${textOf(error)}\n`)
    }
    failed += rows.filter(row => row[3] !== 'works').length
    replaceRows(page, TABLE, rows, ([store]) => store === name)
  }
  return failed
}
