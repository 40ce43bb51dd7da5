// What groups of the directory are granted; where they can no longer be read it stays for a while, then lapses, and all say so.
// RV-60, RV-63
import t, { type Test } from 'tap'
import { portariaHere } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET, type World } from '../support/gateway.ts'
import { logIn, refreshLogin } from '../support/login.ts'
import { only } from '../support/only.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { dnOf } from '../support/openldap-people.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t, { lockoutThreshold: 5 })
const groups = `ou=groups,${ldap.baseDn}`
const admins = `cn=Admins,${groups}`
const addGroups = async () => {
  await ldap.add(groups, { objectClass: 'organizationalUnit', ou: 'groups' })
  await ldap.add(admins, { objectClass: 'groupOfNames', cn: 'Admins', member: dnOf({ uid: 'maria' }) })
}
await addGroups()
const setMember = (uid: string) => ldap.replace(admins, 'member', [dnOf({ uid })])

const env = (more: Record<string, string>) => ({
  ...ldap.serviceEnv,
  LDAP_GROUP_BASE: groups,
  LDAP_GROUP_FILTER: '(member={{dn}})',
  LDAP_RECHECK: '600ms',
  ...more
})

const startWorld = async (t: Test) => {
  await setMember('maria')
  const postgres = await startPostgres(t)
  const grants = [{ group: admins, profiles: ['Admin'], areas: ['Geral'] }]
  const start = (more: Record<string, string> = {}) => startGateway(t, { postgres, env: env(more), config: { grants } })
  return { postgres, start }
}

const profilesOf = async (world: World, token: string) => (await refreshLogin(world, token)).user.profiles
const directoryHealth = async (world: World) => (await world.health()).checks.directory
const warnings = (world: World, wanted: string) => world.log.filter(({ reason }) => reason === wanted).length

t.test('with a wrongly written base, granted access lapses after two rechecks, new logins included', async t => {
  const { postgres, start } = await startWorld(t)
  const right = await start()
  t.same((await logIn(right, 'maria')).user.profiles, ['Admin'])
  await right.gateway.close()
  await setMember('ana')
  const wrong = { LDAP_GROUP_BASE: `ou=grups,${ldap.baseDn}` }
  const patient = await start({ ...wrong, LDAP_RECHECK: '1h' })
  const [maria, ana] = [await logIn(patient, 'maria'), await logIn(patient, 'ana')]
  t.same([maria.user.profiles, ana.user.profiles], [['Admin'], []], 'for now, everybody keeps what they had')
  await patient.gateway.close()
  const world = await start(wrong)
  t.match(await world.logged(({ reason }) => reason === 'base-missing'), { setting: 'LDAP_GROUP_BASE' })
  await until(async () => (await profilesOf(world, maria.token)).length === 0)
  t.same((await logIn(world, 'maria')).user.profiles, [], 'and a new login brings nothing back')
  const [row] = await postgres.query('SELECT max(groups_misses) AS most FROM directory_accounts')
  t.ok(Number(row?.most) >= 2)
  t.equal(await directoryHealth(world), 'groups-unreadable')
  t.equal(warnings(world, 'groups-unreadable'), 1)
  t.equal(warnings(world, 'base-missing'), 1)
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const item = await world.json(`/auth/admin/users/${maria.user.id}`, { token: admin })
  t.match(item, { groupsUnreadable: true, groupsCutOff: false, granted: [] })
  await world.gateway.close()
  const corrected = await start()
  t.same((await logIn(corrected, 'ana')).user.profiles, ['Admin'])
  await until(async () => (await directoryHealth(corrected)) === 'ok')
})

t.test('groups that can be read again give access again, and the log says it once', async t => {
  const { start } = await startWorld(t)
  const world = await start()
  const { token } = await logIn(world, 'maria')
  await ldap.remove(admins)
  await ldap.remove(groups)
  await until(async () => (await directoryHealth(world)) === 'groups-unreadable')
  await until(async () => (await profilesOf(world, token)).length === 0)
  await addGroups()
  await until(async () => (await profilesOf(world, token)).length > 0)
  await until(async () => (await directoryHealth(world)) === 'ok')
  t.same([warnings(world, 'groups-unreadable'), warnings(world, 'groups-readable')], [1, 1])
})

t.test('without a recheck, granted access lapses at a login a day later', async t => {
  const { postgres, start } = await startWorld(t)
  const right = await start({ LDAP_RECHECK: '0' })
  t.same((await logIn(right, 'maria')).user.profiles, ['Admin'])
  await right.gateway.close()
  const world = await start({ LDAP_RECHECK: '0', LDAP_GROUP_BASE: `ou=grups,${ldap.baseDn}` })
  const back = (hours: number) =>
    postgres.query(`UPDATE directory_accounts SET groups_unread_since = now() - interval '${hours} hours'`)
  t.same((await logIn(world, 'maria')).user.profiles, ['Admin'])
  await back(23)
  t.same((await logIn(world, 'maria')).user.profiles, ['Admin'])
  await back(25)
  t.same((await logIn(world, 'maria')).user.profiles, [])
})

t.test('a start that can read a policy that never forgets failures warns, unless the settings say so too', async t => {
  const { start } = await startWorld(t)
  const warned = await start()
  await warned.logged(({ reason }) => reason === 'failures-never-forgotten')
  await warned.gateway.close()
  const told = await start({ LDAP_LOCKOUT_WINDOW: '0' })
  await told.gateway.close()
  t.equal(warnings(told, 'failures-never-forgotten'), 0)
})

t.test('members of a directory group log in with what it is granted, and its DN can be found by its cn', async t => {
  await setMember('maria')
  const grants = [{ group: admins.toUpperCase(), profiles: ['Supervisor'], areas: ['Suporte'] }]
  const world = await startGateway(t, { env: env({ LDAP_RECHECK: '0' }), config: { grants } })
  t.match((await logIn(world, 'maria')).user, {
    profiles: only('Supervisor'),
    areas: only('Suporte'),
    accessStatus: 'assigned'
  })
  t.match((await logIn(world, 'carlos')).user, { profiles: only(), areas: only(), accessStatus: 'unassigned' })

  const settings = { ...ldap.serviceEnv, JWT_SECRET: TEST_SECRET }
  t.same((await portariaHere(['grants', '--find', 'ADMINS', '--json'], { env: settings })).json(), [admins])
  const nothing = await portariaHere(['grants', '--find', 'Admins*'], { env: settings })
  t.match(nothing, { code: 1, stderr: /no group with the cn/ })
})
