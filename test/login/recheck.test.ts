// What the directory says of people who are logged in is felt without a new login, and a directory that errs ends nothing.
// RV-62, LD-17, AD-07, DF-05
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Directory } from '../../gateway/directory/directory.ts'
import { startRecheck } from '../../gateway/login/recheck.ts'
import { createDirectoryAccounts, type DirectoryAccounts } from '../../gateway/store/directory-accounts.ts'
import { createLiveLogins } from '../../gateway/store/live-logins.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { logIn, refreshLogin } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { dnOf } from '../support/openldap-people.ts'
import { startPostgres } from '../support/postgres.ts'
import { begunLogin, openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const RECHECK_MS = 300

const ldap = await startOpenLdap(t)
const postgres = await startPostgres(t)

/** Each test leaves the directory as it was; the people whom earlier ones logged in are looked up too. */
const startWorld = async (t: Test, more: Record<string, string> = {}, people: string[] = ['maria']) => {
  const env = { ...ldap.serviceEnv, LDAP_RECHECK: `${RECHECK_MS}ms`, ...more }
  const start = (again: Record<string, string> = {}) => startGateway(t, { postgres, env: { ...env, ...again } })
  const world = await start()
  const tokens = await Promise.all(people.map(name => tokenOf(world, name)))
  return { world, start, tokens }
}

const tokenOf = async (world: World, username: string): Promise<string> => (await logIn(world, username)).token

const statusOf = async (world: World, token = ''): Promise<number> => (await world.fetch('/auth/me', { token })).status

const untilEnded = (world: World, token = '') =>
  until(async () => (await statusOf(world, token)) !== 200, 'the token ends')

/** For a while in which each person's turn has come, several times. */
const staysFor = async (world: World, token = '', ms = 3 * RECHECK_MS): Promise<boolean> => {
  const startedAt = performance.now()
  while (performance.now() - startedAt < ms) if ((await statusOf(world, token)) !== 200) return false
  return true
}

// Which attributes say so is a table of test/directory/accounts.test.ts.
const ENDINGS = [
  ['disabled', 'pwdAccountLockedTime', '000001010000Z'],
  ['expired', 'accountExpires', '116444736000000000']
] as const

t.test('a person who is disabled or expired in the directory loses the token', async t => {
  const { world, tokens } = await startWorld(t, {}, ['maria', 'ana'])
  let [maria = '', ana = ''] = tokens
  for (const [what, attribute, value] of ENDINGS) {
    await ldap.replace(dnOf({ uid: 'maria' }), attribute, [value])
    await untilEnded(world, maria)
    t.equal(await statusOf(world, ana), 200, attribute)
    const [row] = await postgres.query(
      "SELECT details FROM audit_events WHERE action = 'person.ended-by-directory' ORDER BY id DESC LIMIT 1"
    )
    t.match(row, { details: { reason: what } }, attribute)
    t.same(await postgres.query('SELECT 1 FROM users WHERE disabled'), [], 'our own flag is ours')
    await ldap.replace(dnOf({ uid: 'maria' }), attribute, [])
    maria = await tokenOf(world, 'maria')
    t.equal(await statusOf(world, maria), 200, 'enabled there, they log in again')
  }
})

t.test('a person whose mail address has changed, by which they had logged in, keeps the token', async t => {
  const { world } = await startWorld(t, { LDAP_SEARCH_FILTER: '(mail={{username}})' }, [])
  await ldap.addPerson({ uid: 'rita', mail: 'rita@corp.example', password: ldap.password })
  const rita = await tokenOf(world, 'rita@corp.example')
  t.equal(await statusOf(world, rita), 200)
  await ldap.replace(dnOf({ uid: 'rita' }), 'mail', ['rita.nova@corp.example'])
  t.ok(await staysFor(world, rita))
  await ldap.replace(dnOf({ uid: 'rita' }), 'mail', [])
  await untilEnded(world, rita)
})

t.test('without a service account nobody is looked up again, and nobody loses a token', async t => {
  const anonymous = { LDAP_BIND_DN: '', LDAP_BIND_PASSWORD: '', LDAP_USER_DN_TEMPLATE: ldap.env.LDAP_USER_DN_TEMPLATE }
  const { world, tokens } = await startWorld(t, anonymous)
  await ldap.replace(dnOf({ uid: 'maria' }), 'pwdAccountLockedTime', ['000001010000Z'])
  t.ok(await staysFor(world, tokens[0]))
  await ldap.replace(dnOf({ uid: 'maria' }), 'pwdAccountLockedTime', [])
})

t.test('an instance goes on looking people up when the one that did so is gone', async t => {
  const { world, start, tokens } = await startWorld(t)
  const other = await start()
  await world.gateway.close()
  await ldap.replace(dnOf({ uid: 'maria' }), 'userAccountControl', ['514'])
  await untilEnded(other, tokens[0])
  await ldap.replace(dnOf({ uid: 'maria' }), 'userAccountControl', [])
})

t.test('a directory that is away, or whose base is missing, ends nothing', async t => {
  const { world, start, tokens } = await startWorld(t)
  await ldap.stop()
  t.ok(await staysFor(world, tokens[0]))
  await world.logged(({ reason }) => reason === 'look-up-failed')
  t.match(await world.health(), { status: 'degraded', checks: { directory: 'away' } })
  await world.gateway.close()
  await ldap.start()
  const elsewhere = await start({ LDAP_SEARCH_BASE: 'ou=nowhere,dc=corp,dc=example' })
  t.ok(await staysFor(elsewhere, tokens[0]))
})

t.test('when the directory no longer shows many people at once, they stay, and the log warns', async t => {
  const people = ['maria', 'carlos', 'ana', 'joão', 'a+b', 'o"neil', 'star*(1)']
  const { world, start, tokens } = await startWorld(t, {}, people)
  await world.gateway.close()
  const empty = await startOpenLdap(t)
  for (const uid of people) await empty.remove(dnOf({ uid }))
  for (const mistake of [
    // A fail-over to a server that has not been filled yet.
    { LDAP_URL: `ldap://127.0.0.1:1,${empty.url}` },
    { LDAP_SEARCH_BASE: 'ou=contractors,dc=corp,dc=example' },
    { LDAP_SEARCH_FILTER: '(&(uid={{username}})(mail=*@mistyped.example))' }
  ]) {
    const misled = await start(mistake)
    await misled.logged(({ reason, missing }) => reason === 'many-people-gone' && Number(missing) > 5)
    for (const token of tokens) t.equal(await statusOf(misled, token), 200)
    await misled.gateway.close()
  }
  const corrected = await start()
  t.ok(await staysFor(corrected, tokens[0]))
})

t.test('a person who is moved between groups has the new rights without logging in again', async t => {
  const { world, tokens } = await startWorld(t)
  let token = tokens[0]
  const group = `cn=Supervisores,ou=groups,${ldap.baseDn}`
  world.writeRoutes({ grants: [{ group, profiles: ['Supervisor'], areas: ['Norte'] }] })
  await world.gateway.reload()
  const profiles = async () => (await refreshLogin(world, token)).user.profiles
  t.same(await profiles(), [])
  await ldap.add(`ou=groups,${ldap.baseDn}`, { objectClass: 'organizationalUnit', ou: 'groups' })
  await ldap.add(group, { objectClass: 'groupOfNames', cn: 'Supervisores', member: dnOf({ uid: 'maria' }) })
  await until(async () => (await profiles()).length > 0)
  t.same(await profiles(), ['Supervisor'])
  token = await tokenOf(world, 'maria')
  const [, disabled, since] = ENDINGS[0]
  await ldap.replace(dnOf({ uid: 'maria' }), disabled, [since])
  await untilEnded(world, token)
  t.same(await postgres.query('SELECT FROM granted_profiles'), [], 'nor does an account that is closed grant anything')
  await ldap.replace(dnOf({ uid: 'maria' }), disabled, [])
  token = await tokenOf(world, 'maria')
  t.same(await profiles(), ['Supervisor'])
  await ldap.remove(group)
  await until(async () => (await profiles()).length === 0)
  t.same(await profiles(), [], 'a group that is gone takes its part with it')
})

t.test('a person who is gone from the directory is ended at the second look', async t => {
  const { world, tokens } = await startWorld(t)
  // From before the removal: its answer may come late.
  const began = performance.now()
  await ldap.remove(dnOf({ uid: 'maria' }))
  await untilEnded(world, tokens[0])
  const ms = performance.now() - began
  t.ok(ms > RECHECK_MS * 0.4, `${ms} ms`)
})

/** People who are logged in are looked up by a directory of the test; the reasons that the log names, and what is asked of the store. */
const startRechecking = async (
  t: Test,
  count: number,
  intervalMs: number,
  lookUp: Directory['lookUp'],
  failing: Partial<DirectoryAccounts> = {}
) => {
  const own = await startPostgres(t)
  const { database, users, url } = await openStore(t, own)
  const liveLogins = createLiveLogins(database)
  for (let n = 0; n < count; n++) {
    const { user, version } = await users.syncPerson(person(`p${n}`, { login: `p${n}` }))
    await liveLogins.begin(begunLogin(`p${n}`, user.id, version))
  }
  const reasons = new Set<unknown>()
  const keep = ({ reason }: { reason?: unknown }) => void reasons.add(reason)
  const accounts = createDirectoryAccounts(database)
  const asked: ('lead' | 'count' | 'due')[] = []
  const recheck = startRecheck({
    directory: { lookUp },
    accounts: {
      ...accounts,
      ...failing,
      lead: async (...lease) => {
        const isHeld = await accounts.lead(...lease)
        asked.push('lead')
        return isHeld
      },
      count: () => {
        asked.push('count')
        return accounts.count()
      },
      due: (ageMs, limit, mostMs) => {
        asked.push('due')
        return accounts.due(ageMs, limit, mostMs)
      }
    },
    applyGroups: async () => {},
    catchUp: async () => {},
    intervalMs,
    log: { warn: keep, info: keep } as never
  })
  t.teardown(recheck.close)
  return { recheck, reasons, asked, query: (statement: string) => own.query(statement, [], url) }
}

t.test('when many are gone, none is ended because others have not been looked up yet', async t => {
  const missed = new Set<string>()
  // Some of them in the first turn, all in the next: second looks beside first ones, which take longer.
  const { reasons, asked } = await startRechecking(t, 7, 50, async ({ subject }) => {
    if (!missed.has(subject)) await delay(50)
    missed.add(subject)
    return { state: 'gone' }
  })
  await until(() => reasons.has('many-people-gone') || reasons.has('directory-gone'))
  t.notOk(reasons.has('directory-gone'))
  await until(() => asked.length > 40)
  t.notMatch(asked.join(' '), /count count count/, 'all are counted once a round, not for each who is gone')
})

t.test('people are looked up side by side; the log says so when the directory is too slow for all of them', async t => {
  const seen = { now: 0, most: 0 }
  const { reasons } = await startRechecking(t, 30, 40, async () => {
    seen.now += 1
    seen.most = Math.max(seen.most, seen.now)
    await delay(50)
    seen.now -= 1
    return { state: 'open', groups: [] }
  })
  await until(() => reasons.has('recheck-behind'))
  t.equal(seen.most, 8)
})

t.test('a round ends with the last of its people, also where the store fails for one of them', async t => {
  const [second, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let looked = 0
  const lookUp: Directory['lookUp'] = async () => {
    looked += 1
    if (looked === 1) {
      await second.promise
      throw new Error('away')
    }
    second.resolve()
    await release.promise
    return { state: 'open', groups: [] }
  }
  const postpone = () => Promise.reject(new Error('away'))
  const { recheck, query } = await startRechecking(t, 30, 40, lookUp, { postpone })
  await second.promise
  let isClosed = false
  const closing = recheck.close().then(() => {
    isClosed = true
  })
  for (let n = 0; n < 10; n++) await query('SELECT 1')
  t.notOk(isClosed)
  release.resolve()
  await closing
})

t.test('whom a slow directory keeps busy for long keeps the lease, or stops if another process has it', async t => {
  let answersAt = Number.POSITIVE_INFINITY
  let looked = 0
  const { asked, query } = await startRechecking(t, 40, 40, async () => {
    looked += 1
    answersAt = Math.min(answersAt, performance.now() + 3_500)
    await delay(Math.max(0, answersAt - performance.now()))
    return { state: 'open', groups: [] }
  })
  await until(() => looked === 8)
  await query("UPDATE directory_recheck SET holder = 'another', held_until = now() + interval '30 seconds'")
  await until(() => asked.filter(what => what === 'lead').length > 1)
  t.match(await query('SELECT holder FROM directory_recheck'), [{ holder: 'another' }])
  t.equal(looked, 8)
})

t.test('people who were last looked up long ago, or while the clock was ahead, are looked up', async t => {
  const seen = new Set<string>()
  const { query } = await startRechecking(t, 3, 200, async ({ subject }) => {
    seen.add(subject)
    return { state: 'open', groups: [] }
  })
  for (const move of ['-', '+']) {
    await query(`UPDATE directory_accounts SET checked_at = now() ${move} interval '1 year'`)
    seen.clear()
    await until(() => seen.size === 3, move)
  }
})
