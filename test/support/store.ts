// Opens the whole store on a database of a test's own, with people to put into it.
import pg from 'pg'
import type { Test } from 'tap'
import { keyAuditLog } from '../../gateway/store/audit-entry.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { type DatabaseDeadlines, openDatabase } from '../../gateway/store/database.ts'
import { createLoginMemory } from '../../gateway/store/login-names.ts'
import { createTokenState } from '../../gateway/store/token-state.ts'
import { type ConfirmedPerson, createUsers } from '../../gateway/store/users.ts'
import { sealingSecret } from '../../gateway/tokens/sealed-keys.ts'
import { askPostgres, type TestPostgres } from './postgres.ts'
import { quiet } from './quiet.ts'
import { TEST_SECRET } from './test-secret.ts'
import { until } from './until.ts'

/** However busy the machine is, what waits for its turn gets it. */
export const PATIENT: DatabaseDeadlines = { acquireMs: 60_000, statementMs: 60_000, workMs: 90_000 }

/**
 * Everything of the store; a new empty database unless `databaseUrl` names one that another instance uses too.
 * @param isKeyed whether its audit log has a key, as a gateway's has
 */
export const openStore = async (
  t: Pick<Test, 'teardown'>,
  postgres: Pick<TestPostgres, 'url' | 'newDatabase'>,
  databaseUrl?: string,
  isKeyed = true
) => {
  const url = databaseUrl ?? (await postgres.newDatabase())
  const database = await openBare(t, url, { deadlines: PATIENT })
  if (isKeyed) await keyAuditLog(database, { secrets: [sealingSecret(TEST_SECRET)], creates: true })
  return {
    url,
    /** One statement on a connection of its own, as superuser. */
    ask: (statement: string, values?: unknown[]) => askPostgres(url, statement, values),
    /** The same with what a superuser alone may do: no trigger fires. */
    force: (statement: string) => askPostgres(url, `SET session_replication_role = replica; ${statement}`),
    database,
    users: createUsers(database),
    audit: createAuditLog(database),
    tokenState: createTokenState(database),
    memory: createLoginMemory(database)
  }
}

/** The database alone, until the test ends. */
export const openBare = async (
  t: Pick<Test, 'teardown'>,
  databaseUrl: string,
  more: Partial<Parameters<typeof openDatabase>[0]> = {}
) => {
  const database = await openDatabase({ databaseUrl, dataDir: '/nonexistent', log: quiet, ...more })
  t.teardown(() => database.close())
  return database
}

/** A connection of its own, for example one that holds locks. */
export const openClient = async (t: Pick<Test, 'teardown'>, connectionString: string): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

/** Settings of a directory that is not asked: what it reported earlier is in the database. */
export const UNASKED_DIRECTORY = {
  LDAP_ENABLED: 'true',
  LDAP_URL: 'ldap://127.0.0.1:1',
  LDAP_DOMAIN: 'corp.example',
  LDAP_SEARCH_BASE: 'dc=corp,dc=example',
  LDAP_SEARCH_FILTER: '(uid={{username}})'
}

export const actor = { id: null, username: 'test', requestId: 'r-1', ip: '127.0.0.1' }

/** As a directory would confirm them. */
export const person = (subject: string, more: Partial<ConfirmedPerson> = {}): ConfirmedPerson => ({
  provider: 'ldap',
  issuer: 'corp.example',
  subject,
  name: subject.toUpperCase(),
  email: `${subject}@corp.example`,
  username: subject,
  ...more
})

/** In seconds, as tokens have it. */
const secondsAhead = (seconds: number) => Math.floor(Date.now() / 1000) + seconds

/** A login that has succeeded, as `sessions.begin` stores it; for ten minutes from now, unless `times` says otherwise. */
export const begunLogin = (
  tokenId: string,
  userId: number,
  version = 0,
  times: { readonly createdAt?: number; readonly expiresAt?: number } = {}
) => ({
  login: {
    ...{ tokenId, userId, version, provider: 'ldap' as const },
    ...{ createdAt: secondsAhead(0), expiresAt: secondsAhead(600), ...times }
  },
  ip: '',
  userAgent: '',
  atProvider: undefined,
  entry: { actor, action: 'login' }
})

const GONE = `
  SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'portaria' AND datname = current_database()`

/**
 * By how much the numbers of a statement over pg_stat_* grow while a store of its own does something: a connection reports
 * what it has read when it ends.
 */
export const grownBy = async <T>(
  postgres: Parameters<typeof openStore>[1] & Pick<TestPostgres, 'query'>,
  url: string,
  statement: string,
  work: (store: Awaited<ReturnType<typeof openStore>>) => Promise<T>
) => {
  const [before = {}] = await postgres.query(statement, [], url)
  const store = await openStore({ teardown: () => undefined }, postgres, url)
  const result = await work(store)
  await store.database.close()
  await until(async () => (await postgres.query(GONE, [], url))[0]?.n === 0)
  const [after = {}] = await postgres.query(statement, [], url)
  const grown = Object.entries(after).map(([name, value]) => [name, Number(value) - Number(before[name])])
  return { result, grown: Object.fromEntries(grown) as Record<string, number> }
}
