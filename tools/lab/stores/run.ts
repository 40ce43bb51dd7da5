// Tries versions of Postgres and Redis, PgBouncer and HAProxy with real gateways: `npm run lab -- stores`.
import { execFileSync } from 'node:child_process'
import type { Test } from 'tap'
import { fillTable, messageOf, withTeardown } from '../table.ts'
import { poolerCases, postgresCases } from './postgres-cases.ts'
import { haproxyCases, redisCases } from './redis-cases.ts'
import { POSTGRES_VERSIONS, REDIS_VERSIONS, redisVersion } from './servers.ts'

export interface StoreCase {
  readonly name: string
  /** Throws, or resolves to what is wrong, if the result is not the one that the name promises. */
  readonly run: (t: Test) => Promise<readonly string[]>
}

interface Store {
  readonly name: string
  readonly start: () => Promise<{ readonly version: string; readonly cases: readonly StoreCase[] }>
}

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

const tryCase = ({ run }: StoreCase): Promise<string> =>
  withTeardown(async t => {
    const faults = await run(t as Test)
    return faults.length === 0 ? 'works' : `DIFFERS: ${faults.join('; ')}`
  }).catch(error => `FAILED: ${messageOf(error)}`)

/** @param names of stores, or parts of names; none: all. Resolves to how many cases did not work */
export const runStores = async (names: readonly string[]): Promise<number> => {
  let failed = 0
  const wanted = STORES.filter(({ name }) => names.length === 0 || names.some(part => name.includes(part)))
  for (const { name, start } of wanted)
    failed += await fillTable(
      TABLE,
      ([store]) => store === name,
      async add => {
        const { version, cases } = await start()
        for (const one of cases) {
          const result = await tryCase(one)
          add([name, version, one.name, result], result === 'works')
        }
      }
    )
  return failed
}
