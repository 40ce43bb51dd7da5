// What ten thousand people of a directory cost with three hundred grants: logins, look-ups again, and changed grants.
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { groupKey } from '../../../gateway/routes/grants.ts'
import { type OpenLdap, SAMPLE_PASSWORD, startOpenLdap } from '../../../test/support/openldap.ts'
import { attributesOf, BASE_DN, ldifEntry } from '../../../test/support/openldap-people.ts'
import { asked } from '../asked.ts'
import { compared, type GroupResult } from '../group.ts'
import { runPaced } from '../paced.ts'
import { type Gateway, startGateway } from '../peers/gateway.ts'
import { VoidRun } from '../peers/peer.ts'
import { median, spread } from '../statistics.ts'
import type { World } from '../world.ts'

const PEOPLE = 10_000
const GROUPS = 50
const GRANTS = 300
const GROUPS_OF_A_PERSON = 6
const LIVE = 1_000
const RECHECK_S = 60
/** Logins that make the live people. */
const AT_ONCE = 4

const groupOf = (n: number) => `cn=group-${n % GROUPS},ou=groups,${BASE_DN}`
const loginOf = (n: number) => `person-${n}`
const groupsOf = (person: number) => Array.from({ length: GROUPS_OF_A_PERSON }, (_, k) => groupOf(person * 7 + k * 11))

const peopleLdif = (): string => {
  const { userPassword = '' } = attributesOf({ uid: 'x', password: SAMPLE_PASSWORD })
  const entries = Array.from({ length: PEOPLE }, (_, n) => {
    const plain = attributesOf({ uid: loginOf(n), password: '', mail: `${loginOf(n)}@corp.example` })
    return ldifEntry(`uid=${loginOf(n)},ou=people,${BASE_DN}`, { ...plain, userPassword, memberOf: groupsOf(n) })
  })
  return entries.join('\n\n')
}

/** Six grants to each group, two areas each; in another round other areas, so that all people are granted others. */
const routeFile = (upstreamPort: number, grants: number, round = 0): string => {
  const lines = Array.from({ length: grants }, (_, n) => {
    const area = `Area ${n % (2 * GROUPS)} ${round % 2}`
    return `  - { group: "${groupOf(n)}", profiles: [${n % 2 === 0 ? 'Agente' : 'Supervisor'}], areas: ["${area}"] }\n`
  })
  const routes = `  - { path: /api/*, upstream: app, roles: [Admin] }\n`
  const granted = grants === 0 ? '' : `grants:\n${lines.join('')}`
  return `upstreams:\n  app: { url: http://127.0.0.1:${upstreamPort} }\nroutes:\n${routes}${granted}`
}

const newDatabase = async (world: World, name: string): Promise<string> => {
  const url = await world.databaseUrl()
  await asked(url, `CREATE DATABASE ${name}`)
  return url.replace(/[^/]+$/, name)
}

const startOne = async (world: World, ldap: OpenLdap, grants: number, recheck = '0') => {
  const databaseUrl = await newDatabase(world, `people_${grants}_${recheck}`)
  const gateway = await startGateway(world, {
    name: `${grants} grants`,
    counting: 'memory',
    routes: routeFile(world.upstream.checkedPort, grants),
    env: {
      ...ldap.env,
      LDAP_USER_DN_TEMPLATE: '',
      LDAP_BIND_DN: ldap.admin.dn,
      LDAP_BIND_PASSWORD: ldap.admin.password,
      LDAP_RECHECK: recheck,
      DATABASE_URL: databaseUrl
    }
  })
  return { gateway, databaseUrl }
}

const logIn = async ({ port }: Gateway, person: number): Promise<number> => {
  const startedAt = performance.now()
  const answer = await fetch(`http://127.0.0.1:${port}/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username: loginOf(person), password: SAMPLE_PASSWORD })
  })
  await answer.arrayBuffer()
  if (answer.status !== 200) throw new VoidRun(`a login was answered ${answer.status}`)
  return performance.now() - startedAt
}

/** People who log in for the first time and people who come back, one after the other, in turns at both. */
const measureLogins = async (world: World, plain: Gateway, granting: Gateway): Promise<GroupResult> => {
  const times = { plain: [] as number[], granting: [] as number[] }
  const perRound = world.options.quick ? 20 : 100
  const round = async (gateway: Gateway, from: number): Promise<number> => {
    const took: number[] = []
    for (let n = 0; n < perRound; n += 1) took.push(await logIn(gateway, from + (n >> 1)))
    return median(took)
  }
  for (let index = -1; index < world.options.rounds; index += 1) {
    const from = (index + 1) * perRound
    const [before, after] = [await round(plain, from), await round(granting, from)]
    if (index >= 0) times.plain.push(before)
    if (index >= 0) times.granting.push(after)
  }
  return {
    rows: [
      { name: 'login without grants', columns: { 'p50 ms': spread(times.plain) } },
      { name: `login with ${GRANTS} grants`, columns: { 'p50 ms': spread(times.granting) } }
    ],
    findings: compared('grants-login', times.granting, times.plain, (with300, without) => with300 - without),
    notes: [`${perRound} logins a round, every person twice; the medians of the rounds`]
  }
}

const measureRecheck = async (world: World, ldap: OpenLdap): Promise<GroupResult> => {
  const { gateway } = await startOne(world, ldap, GRANTS, `${RECHECK_S}s`)
  for (let from = 0; from < LIVE; from += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => logIn(gateway, from + n)))
  const seconds = world.options.quick ? 5 : RECHECK_S + 10
  const perSecond: number[] = []
  let before = await ldap.searchCount()
  for (let second = 0; second < seconds; second += 1) {
    await delay(1000)
    const now = await ldap.searchCount()
    // The question itself is one.
    perSecond.push(now - before - 1)
    before = now
  }
  await gateway.running.stop()
  return {
    rows: [{ name: `recheck of ${LIVE} live people each minute`, columns: { 'searches/s': spread(perSecond) } }],
    findings: [{ target: 'recheck-searches', value: Math.max(...perSecond) }],
    notes: [
      `LDAP_RECHECK=${RECHECK_S}s, over ${seconds} s; the default of 15m asks a fifteenth. Active Directory, with nested groups, takes three searches a person`
    ]
  }
}

const USERS = `
  INSERT INTO users (name, username, provider, last_login_at)
  SELECT 'Known ' || n, 'known-' || n, 'ldap', now() FROM generate_series(1, $1::int) n`
const SEEN = `
  INSERT INTO person_groups (user_id, provider, groups)
  SELECT id, 'ldap', ARRAY(SELECT ($1::text[])[1 + (id * 7 + k * 11) % ${GROUPS}] FROM generate_series(0, $2::int - 1) k)
  FROM users WHERE username LIKE 'known-%'`
const LEFT = `
  SELECT count(*)::int AS left FROM person_groups s LEFT JOIN granted_access g ON g.user_id = s.user_id
  WHERE g.grants_checksum IS NULL OR g.grants_checksum = ANY($1::text[])`
const CHECKSUMS = 'SELECT DISTINCT grants_checksum AS checksum FROM granted_access'

const measureReload = async (world: World, gateway: Gateway, databaseUrl: string): Promise<GroupResult> => {
  await asked(databaseUrl, USERS, [PEOPLE])
  const keys = Array.from({ length: GROUPS }, (_, n) => groupKey('ldap', groupOf(n)))
  await asked(databaseUrl, SEEN, [keys, GROUPS_OF_A_PERSON])
  const took: number[] = []
  const slowest: number[] = []
  for (let round = 0; round <= world.options.rounds; round += 1) {
    const old = (await asked(databaseUrl, CHECKSUMS)).map(({ checksum }) => checksum)
    const beside = join(await world.folder('grants'), 'routes.yaml')
    await writeFile(beside, routeFile(world.upstream.checkedPort, GRANTS, round + 1))
    const load = runPaced({
      port: gateway.port,
      path: '/auth/config',
      token: world.token,
      rate: 100,
      seconds: 8,
      skip: 1
    })
    await delay(2000)
    const startedAt = performance.now()
    await rename(beside, gateway.routeFile)
    gateway.running.signal('SIGHUP')
    while ((await asked(databaseUrl, LEFT, [old]))[0]?.left !== 0) {
      if (performance.now() - startedAt > 300_000) throw new VoidRun('changed grants took more than five minutes')
      await delay(250)
    }
    const ms = performance.now() - startedAt
    const { failed, maxMs } = await load
    if (failed > 0) throw new VoidRun(`${failed} requests failed meanwhile`)
    // The first gives what nobody had.
    if (round === 0) continue
    took.push(ms)
    slowest.push(maxMs)
  }
  return {
    rows: [{ name: `other grants for ${PEOPLE} people`, columns: { ms: spread(took), 'slowest ms': spread(slowest) } }],
    findings: [
      { target: 'grants-reload', value: spread(took) },
      { target: 'grants-stall', value: spread(slowest) }
    ],
    notes: [
      'every area of every person changes, from the replaced file (and SIGHUP) on; 100 paced requests/s beside it'
    ]
  }
}

export const measureDirectory = async (world: World): Promise<GroupResult> => {
  const ldap = await startOpenLdap({ teardown: end => world.defer(async () => end()) }, { ldif: peopleLdif() })
  const plain = await startOne(world, ldap, 0)
  const granting = await startOne(world, ldap, GRANTS)
  const logins = await measureLogins(world, plain.gateway, granting.gateway)
  await plain.gateway.running.stop()
  world.say('logins are measured')
  const reload = await measureReload(world, granting.gateway, granting.databaseUrl)
  await granting.gateway.running.stop()
  world.say('changed grants are measured')
  const recheck = await measureRecheck(world, ldap)
  const all = [logins, recheck, reload]
  return {
    rows: all.flatMap(({ rows }) => rows),
    findings: all.flatMap(({ findings }) => findings),
    notes: [
      `${PEOPLE} people in OpenLDAP, ${GROUPS} groups, ${GROUPS_OF_A_PERSON} a person, ${GRANTS} grants`,
      ...all.flatMap(({ notes }) => notes)
    ]
  }
}
