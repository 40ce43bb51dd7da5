// Access comes from what an Admin assigned and from what grants give to groups, and each part is kept apart.
import t from 'tap'
import { createGrants, type Grant } from '../../gateway/routes/grants.ts'
import type { Database } from '../../gateway/store/database.ts'
import { createDirectoryAccounts } from '../../gateway/store/directory-accounts.ts'
import { regrantBatch } from '../../gateway/store/granted-access.ts'
import { checkGrants, type LoadedGrants, loadGrants } from '../../gateway/store/grants-in-force.ts'
import { createRegranting } from '../../gateway/store/regranting.ts'
import { only } from '../support/only.ts'
import { countLockWaits, startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { actor, openClient, openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const place = { file: 'routes.yaml', line: 1, column: 1 }
const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const VENDAS = 'CN=Vendas,OU=Grupos,DC=corp,DC=example'
const CHEFIA = 'CN=Chefia,OU=Grupos,DC=corp,DC=example'

const grant = (group: string, profiles: string[], areas: string[], more: Partial<Grant> = {}): Grant => ({
  provider: 'ldap',
  group,
  tenant: undefined,
  profiles,
  areas,
  place,
  ...more
})

const LIST = [
  grant(SUPORTE, ['Agente'], ['Suporte']),
  grant(VENDAS, ['Supervisor'], ['Vendas']),
  grant(CHEFIA, ['Admin'], ['Direção'])
]

const openWorld = async (list = LIST) => {
  const store = await openStore(t, postgres)
  await enforce(store.database, list)
  return store
}

let changes = 0
/** As files that were changed a second after those before. */
const filesWith = (list: readonly Grant[]) => ({
  grants: createGrants(list),
  profiles: [],
  changedAt: new Date(Date.UTC(2026, 0, 1) + 1000 * ++changes)
})
const enforce = (database: Database, list: readonly Grant[]) => loadGrants(database, filesWith(list))

t.test('a group with a name that no index holds is left out, and the others count', async t => {
  const { users } = await openWorld()
  // Nothing that Postgres could compress.
  const name = Array.from({ length: 1000 }, (_, at) => String.fromCodePoint(0x4e00 + ((at * 7919) % 20_000))).join('')
  const seen = person('member', { login: 'member', groups: [`CN=${name},DC=corp,DC=example`, SUPORTE] })
  t.match(await users.syncPerson(seen), { user: { profiles: only('Agente') } })
})

t.test('a cut-off list of groups grants nothing, and a claim counts only from its tenant', async t => {
  const claim = grant('0f3c', ['Supervisor'], ['Vendas'], { provider: 'cloudidp', tenant: '72f9' })
  const { users } = await openWorld([claim, grant('0f3c', ['Admin'], ['Direção'])])
  const cloud = { provider: 'cloudidp', issuer: 'https://idp.example', groups: ['0f3c'] } as const
  t.match(await users.syncPerson(person('a', { ...cloud, tenant: '72F9' })), { user: { profiles: only('Supervisor') } })
  t.match(await users.syncPerson(person('b', { ...cloud, tenant: 'other' })), { user: { profiles: only() } })
  t.match(await users.syncPerson(person('c', cloud)), { user: { profiles: only() } })
  t.match(await users.syncPerson(person('a', { ...cloud, tenant: '72f9', groupsCutOff: true })), {
    user: { profiles: only(), accessStatus: 'unassigned' },
    version: 1
  })
  t.match(await users.syncPerson(person('d', { ...cloud, groups: ['0F3C'], tenant: '72f9' })), {
    user: { profiles: only() }
  })
})

t.test('a cloud login leaves nothing of what an account grants that an earlier release has ended', async t => {
  const { users, url } = await openWorld()
  const cloud = person('m', { provider: 'cloudidp', issuer: 'https://idp.example', groups: [] })
  const account = person('maria', { login: 'maria', groups: [SUPORTE] })
  const { user } = await users.syncPerson(account)
  await users.relinkPerson(actor, user.id, (await users.syncPerson(cloud)).user.id)
  const { version } = await users.syncPerson(cloud)
  t.match(await users.syncPerson(cloud), { user: { id: user.id, profiles: only('Agente') } })
  await postgres.query('UPDATE directory_accounts SET ended_at = now()', [], url)
  for (const _ of [1, 2])
    t.match(await users.syncPerson(cloud), { user: { profiles: only(), areas: only() }, version: version + 1 })
  t.match(await users.syncPerson(account), { user: { id: user.id, profiles: only('Agente') } })
})

// AD-06, AD-07
t.test('what a recheck began to read before a login does not count after it', async t => {
  const { users, ask, database } = await openWorld()
  const accounts = createDirectoryAccounts(database)
  const before = performance.now()
  const { user } = await users.syncPerson(person('maria', { login: 'maria', groups: [VENDAS] }))
  const recheck = async (group: string, readAt: number) => {
    await users.applyGroups(user.id, { provider: 'ldap', groups: [group] }, readAt)
    return users.loadPerson(user.id)
  }
  t.match(await recheck(SUPORTE, before), { user: { profiles: only('Supervisor') } })
  t.match(await recheck(SUPORTE, performance.now()), { user: { profiles: only('Agente') } })
  await ask("UPDATE person_groups SET seen_at = now() + interval '1 hour'")
  t.match(await recheck(VENDAS, before), { user: { profiles: only('Supervisor') } }, 'of a clock that was set back')
  t.equal(await accounts.end(actor, user.id, 'disabled', before), false)
  t.equal(await accounts.end(actor, user.id, 'disabled', performance.now()), true)
  t.match(await users.loadPerson(user.id), { user: { profiles: only() }, version: 4, lowestAcceptedVersion: 3 })
})

t.test('a granted Admin does not count as the last Admin who must stay', async t => {
  const { users } = await openWorld()
  const { user: boss } = await users.syncPerson(person('boss', { groups: [CHEFIA] }))
  const { user: admin } = await users.syncPerson(person('admin'))
  await users.createArea(actor, 'Geral')
  await users.setAccess(actor, admin.id, { profiles: ['Admin'], areas: ['Geral'], areaPrincipal: 'Geral' })
  await t.rejects(users.disablePerson(actor, admin.id), { code: 'GW_LAST_ADMIN' })
  await users.disablePerson(actor, boss.id)
  t.match(await users.syncPerson(person('boss', { groups: [SUPORTE] })), {
    disabled: true,
    user: { profiles: only('Admin') }
  })
})

t.test('an instance with older files that is just loading them does not end the pass of another', async t => {
  const { users, url, database } = await openWorld([])
  const { user } = await users.syncPerson(person('ana', { groups: [SUPORTE] }))
  await enforce(database, LIST)
  const loading = await openClient(t, url)
  await loading.query('BEGIN')
  await loading.query('SELECT FROM grants_in_force FOR UPDATE')
  const batch = regrantBatch(database, createGrants(LIST).checksum)
  const ended = batch.then(() => true)
  const isWaiting = async () => (await countLockWaits(postgres, url)) > 0
  await until(async () => Promise.race([ended, isWaiting()]), 'the batch waits for its turn')
  await loading.query('COMMIT')
  t.equal(await batch, 1)
  t.same((await users.loadPerson(user.id))?.user.areas, ['Suporte'])
})

t.test('files that were moved here stay the newest when they are loaded again before they are in force', async t => {
  const { users, url, database } = await openWorld([])
  const { user } = await users.syncPerson(person('ana', { groups: [SUPORTE] }))
  const { database: other } = await openStore(t, postgres, url)
  let table: LoadedGrants = filesWith([])
  const regranting = createRegranting({ database, table: () => table, log: quiet })
  t.teardown(regranting.close)
  await regranting.load()
  await enforce(other, [grant(SUPORTE, ['Agente'], ['Vendas'])])
  // As `mv`, which keeps the time of a file.
  table = { ...table, grants: createGrants(LIST) }
  await Promise.all([regranting.load(), regranting.load()])
  t.equal(regranting.state(), 'ok')
  t.same((await users.loadPerson(user.id))?.user.areas, ['Suporte'])
})

t.test('newer files win, older ones come into force when no instance has the newer ones any more', async t => {
  const { database, url } = await openWorld([])
  const older = filesWith([LIST[0] ?? grant(SUPORTE, [], [])])
  const newer = filesWith(LIST)
  t.match(await loadGrants(database, newer), { generation: 2, isInForce: true })
  t.match(await loadGrants(database, older), { generation: 2, isInForce: false })
  t.match(await checkGrants(database, older), { isInForce: false, isDue: false })
  t.match(await checkGrants(database, newer), { isInForce: true, isDue: false })
  t.match(await loadGrants(database, newer), { generation: 2, isInForce: true }, 'the same files change nothing')

  await postgres.query("UPDATE grants_in_force SET seen_at = now() + interval '1 hour'", [], url)
  t.match(await checkGrants(database, older), { isDue: false })
  // As 61 seconds later.
  await postgres.query("UPDATE grants_in_force SET seen_at = seen_at - interval '61 seconds'", [], url)
  t.match(await checkGrants(database, older), { isDue: true }, 'also after a clock has been set back')

  t.match(await loadGrants(database, older), { isInForce: false }, 'at a start, the others may only be starting too')
  t.match(await checkGrants(database, older), { isDue: true })
  t.match(await loadGrants(database, older, true), { generation: 3, isInForce: true })
  t.match(await checkGrants(database, newer), { isDue: true }, 'an instance that comes back takes over again')

  const touched = { ...older, changedAt: new Date(newer.changedAt.getTime() + 1000) }
  t.match(await loadGrants(database, touched), { generation: 3, isInForce: true })
  t.match(await loadGrants(database, newer), { isInForce: false }, 'older files that were saved again are newer')
})

t.test('profiles of the files that a restored backup lacks are made again, without a reload', async t => {
  const { database, users, url } = await openWorld([])
  const files = { ...filesWith(LIST), profiles: ['Financeiro'] }
  await loadGrants(database, files)
  t.match(await checkGrants(database, files), { isInForce: true, isDue: false })
  await postgres.query("DELETE FROM profiles WHERE name = 'Financeiro'", [], url)
  t.match(await checkGrants(database, files), { isInForce: true, isDue: true })
  await loadGrants(database, files, true)
  t.match(await checkGrants(database, files), { isInForce: true, isDue: false })
  t.ok((await users.listProfiles()).some(({ name }) => name === 'Financeiro'))
})

t.test('whom the release before granted something else, or an area was taken from, is looked at again', async t => {
  const { users, database, url } = await openWorld()
  const { user } = await users.syncPerson(person('nuno', { groups: [VENDAS] }))
  const files = filesWith(LIST)
  t.match(await loadGrants(database, files), { isDone: true })
  await postgres.query("UPDATE granted_access SET grants_checksum = 'other'", [], url)
  await postgres.query('DELETE FROM granted_profiles', [], url)
  t.match(await loadGrants(database, files), { generation: 1, isInForce: true, isDone: false })
  t.equal(await regrantBatch(database, files.grants.checksum), 1)
  t.match(await users.loadPerson(user.id), { version: 1, user: { profiles: only('Supervisor') } })

  await enforce(database, [])
  const [area] = (await users.listAreas()).items.filter(({ name }) => name === 'Vendas')
  await users.deleteArea(actor, area?.id ?? 0)
  t.match(await users.loadPerson(user.id), { version: 2, user: { profiles: only('Supervisor'), areas: only() } })
  t.match(await enforce(database, LIST), { generation: 3, isDone: false })
  t.equal(await regrantBatch(database, files.grants.checksum), 1)
  t.match(await users.loadPerson(user.id), { version: 3, user: { areas: only('Vendas'), areaPrincipal: 'Vendas' } })
})

t.test('an area that the release before deletes is gone for everyone who was granted it', async t => {
  const { users, database, url } = await openWorld()
  const { user } = await users.syncPerson(person('lia', { groups: [VENDAS] }))
  await enforce(database, [])
  await postgres.query("DELETE FROM areas WHERE name = 'Vendas'", [], url)
  t.same(await postgres.query('SELECT FROM granted_areas', [], url), [])
  t.match(await users.loadPerson(user.id), { user: { areas: only(), areaPrincipal: '', accessStatus: 'unassigned' } })
  t.equal((await users.listPeople({ accessStatus: 'assigned' })).total, 0)
})
