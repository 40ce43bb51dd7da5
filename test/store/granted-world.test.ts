// In generated worlds of people, groups, files and instances, everyone has exactly what was assigned and what the newest files grant.
import t from 'tap'
import { PROFILES } from '../../gateway/identity.ts'
import { createGrants, type Grant } from '../../gateway/routes/grants.ts'
import type { AccessNames } from '../../gateway/store/people.ts'
import { createRegranting } from '../../gateway/store/regranting.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { actor, openStore, person } from '../support/store.ts'
import { fc } from '../support/worlds.ts'

const postgres = await startPostgres(t)
const GROUPS = ['a', 'b', 'c', 'd'].map(name => `cn=${name},dc=corp,dc=example`)
const AREAS = ['Norte', 'Sul', 'Leste', 'oeste']
const NAMES = ['ana', 'rui', 'eva', 'ze', 'lia', 'gil']
const INSTANCES = 3

const place = { file: 'routes.yaml', line: 1, column: 1 }
const instance = fc.nat(INSTANCES - 1)
const name = fc.constantFrom(...NAMES)
const groups = fc.subarray(GROUPS)
const grant: fc.Arbitrary<Grant> = fc
  .record({ group: fc.constantFrom(...GROUPS), profiles: fc.subarray([...PROFILES]), areas: fc.subarray(AREAS) })
  .map(what => ({ provider: 'ldap', tenant: undefined, place, ...what }))
const access: fc.Arbitrary<AccessNames> = fc
  .record({ profiles: fc.subarray([...PROFILES]), areas: fc.subarray(AREAS) })
  .map(what => ({ ...what, areaPrincipal: what.areas[0] ?? null }))
const command = fc.oneof(
  fc.record({
    kind: fc.constant('load' as const),
    instance,
    list: fc.array(grant, { maxLength: 5 }),
    age: fc.nat(5000)
  }),
  fc.record({ kind: fc.constant('login' as const), instance, name, groups }),
  fc.record({ kind: fc.constant('recheck' as const), instance, name, groups }),
  fc.record({
    kind: fc.constant('bulk' as const),
    instance,
    names: fc.shuffledSubarray(NAMES, { minLength: 2 }),
    add: fc.nat(AREAS.length - 1)
  }),
  fc.record({ kind: fc.constant('set' as const), instance, name, access })
)

type Command = typeof command extends fc.Arbitrary<infer One> ? One : never

const STATE = `
  SELECT u.username AS name, u.access_version AS version,
    (SELECT count(*)::int FROM audit_events e WHERE e.target = 'user:' || u.id AND e.action = 'access.set') AS sets,
    coalesce((SELECT jsonb_agg(jsonb_build_object('before', e.before, 'after', e.after) ORDER BY e.id)
      FROM audit_events e WHERE e.target = 'user:' || u.id AND e.action = 'access.granted'), '[]') AS granted
  FROM users u WHERE u.username <> 'root' ORDER BY u.id`

interface Stored {
  readonly name: string
  readonly version: number
  readonly sets: number
  readonly granted: readonly { readonly before: object; readonly after: object }[]
}

/** What people have and the newest files, worked out by hand; and a gateway's store for each instance. */
const openWorld = async () => {
  const first = await openStore(t, postgres)
  const stores = [first, await openStore(t, postgres, first.url), await openStore(t, postgres, first.url)]
  for (const area of AREAS) await first.users.createArea(actor, area)
  const { user: root } = await first.users.syncPerson(person('root'))
  await first.users.setAccess(actor, root.id, { profiles: ['Admin'], areas: [], areaPrincipal: null })
  let clock = Date.UTC(2026, 0, 1)
  const newest = { at: 0, checksum: '', list: [] as readonly Grant[] }
  const instances = stores.map(({ database, users }) => {
    let table = { grants: createGrants([]), profiles: PROFILES, changedAt: new Date(0) }
    let loads = 0
    const regranting = createRegranting({ database, table: () => table, log: quiet, now: () => clock })
    /** The files of the first load may be older than those of the others; later ones were changed just now. */
    const load = (list: readonly Grant[], age: number): Promise<void> => {
      clock += 1
      const grants = createGrants(list)
      const isChange = loads++ > 0 && grants.checksum !== table.grants.checksum
      table = { grants, profiles: PROFILES, changedAt: new Date(loads === 1 ? clock - age : table.changedAt) }
      const at = isChange ? clock : table.changedAt.getTime()
      if (at > newest.at || (at === newest.at && grants.checksum > newest.checksum))
        Object.assign(newest, { at, checksum: grants.checksum, list })
      return regranting.load()
    }
    return { users, load, close: regranting.close }
  })
  const seen = new Map<string, readonly string[]>()
  const ids = new Map<string, number>()
  const assigned = new Map<string, AccessNames>()
  const run = async (step: Command): Promise<void> => {
    const on = instances[step.instance]
    if (on === undefined) return
    if (step.kind === 'load') return on.load(step.list, step.age)
    if (step.kind === 'login') {
      seen.set(step.name, step.groups)
      const { user } = await on.users.syncPerson(person(step.name, { groups: step.groups }))
      ids.set(step.name, user.id)
    }
    if (step.kind === 'recheck' && ids.has(step.name)) {
      seen.set(step.name, step.groups)
      await on.users.applyGroups(ids.get(step.name) ?? 0, { provider: 'ldap', groups: step.groups })
    }
    if (step.kind === 'bulk') {
      const known = step.names.flatMap(one => ids.get(one) ?? [])
      const areas = { add: [AREAS[step.add] ?? ''] }
      if (known.length === 0) return
      const { failed } = await on.users.setAccessOfMany(actor, { ids: known, areas, profiles: { add: ['Agente'] } })
      t.same(failed, [])
    }
    if (step.kind === 'set' && ids.has(step.name)) {
      await on.users.setAccess(actor, ids.get(step.name) ?? 0, step.access)
    }
  }
  const readAssigned = async (): Promise<void> => {
    for (const [one, id] of ids) {
      const found = await first.users.loadPerson(id)
      if (found !== undefined) assigned.set(one, found.assigned)
    }
  }
  /** By brute force: profiles in the order of their ids, areas by name, the main area of an Admin first. */
  const expected = (one: string) => {
    const own = assigned.get(one) ?? { profiles: [], areas: [], areaPrincipal: null }
    const given = newest.list.filter(({ group }) => seen.get(one)?.includes(group))
    const all = (what: 'profiles' | 'areas') => new Set([...own[what], ...given.flatMap(grant => grant[what])])
    const byName = (a: string, b: string) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1)
    return {
      profiles: PROFILES.filter(profile => all('profiles').has(profile)),
      areas: [...all('areas')].sort(byName),
      areaPrincipal: own.areaPrincipal ?? given.find(({ areas }) => areas.length > 0)?.areas[0] ?? ''
    }
  }
  const actual = async (one: string) => {
    const found = await first.users.loadPerson(ids.get(one) ?? 0)
    const { profiles = [], areas = [], areaPrincipal = '' } = found?.user ?? {}
    return { profiles, areas, areaPrincipal }
  }
  const stored = async () => (await postgres.query(STATE, [], first.url)) as unknown as Stored[]
  const close = async () => {
    for (const one of instances) await one.close()
    for (const { database } of stores) await database.close()
  }
  // A connection reports what it has counted when it closes.
  const deadlocks = () =>
    first.ask('SELECT deadlocks::int AS deadlocks FROM pg_stat_database WHERE datname = current_database()')
  return { run, expected, actual, stored, readAssigned, ids, close, deadlocks, verify: first.audit.verify }
}

t.test('one after the other, exactly those whose access changes get a new version and one entry', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 25 }), async steps => {
      const world = await openWorld()
      const had = new Map<string, string>()
      const entries = new Map<string, number>()
      const versions = new Map<string, number>()
      for (const step of steps) {
        const known = new Set(world.ids.keys())
        await world.run(step)
        await world.readAssigned()
        for (const { name, version, granted, sets } of await world.stored()) {
          const has = JSON.stringify(world.expected(name))
          t.equal(JSON.stringify(await world.actual(name)), has, `${name} has what the newest files grant`)
          const isAdmins = step.kind === 'bulk' || step.kind === 'set'
          const isChanged = has !== (had.get(name) ?? '{"profiles":[],"areas":[],"areaPrincipal":""}')
          const more = isChanged && !isAdmins ? 1 : 0
          entries.set(name, (entries.get(name) ?? 0) + more)
          if (known.has(name) && !isAdmins) versions.set(name, (versions.get(name) ?? 0) + more)
          had.set(name, has)
          t.equal(granted.length, entries.get(name), 'one entry for each change, none without')
          t.equal(version, (versions.get(name) ?? 0) + sets, 'the version counts the changes')
        }
      }
      await world.close()
    }),
    { numRuns: 12 }
  )
})

// RV-77
t.test('all at once, nobody waits in a circle, the newest files win, and the audit chain is whole', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(command, { minLength: 4, maxLength: 12 }), { maxLength: 5 }), async rounds => {
      const world = await openWorld()
      const loginsOf = (name: string) =>
        [0, 1].map(instance => ({ kind: 'login' as const, instance, name, groups: [] }))
      const logins = NAMES.flatMap(loginsOf)
      await Promise.all(logins.map(world.run))
      for (const round of rounds) {
        // Of two logins of one person at once, either may be the last.
        const once = round.filter((step, at) => {
          const isSame = (other: Command) => 'name' in step && 'name' in other && other.name === step.name
          return !round.slice(0, at).some(isSame)
        })
        await Promise.all(once.map(world.run))
        await world.readAssigned()
        for (const { name, version, granted, sets } of await world.stored()) {
          t.same(await world.actual(name), world.expected(name), `${name} has what the newest files grant`)
          t.equal(version, granted.length + sets, 'a version for each entry')
          for (const { before, after } of granted) t.not(JSON.stringify(before), JSON.stringify(after))
        }
      }
      t.match(await world.verify(), { ok: true })
      await world.close()
      t.same(await world.deadlocks(), [{ deadlocks: 0 }])
    }),
    { numRuns: 15 }
  )
})
