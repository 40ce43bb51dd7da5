// People are found and paged as asked, and areas keep the access of their people consistent.
import t from 'tap'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { actor, openStore, person } from '../support/store.ts'

const postgres = await startPostgres(t)

t.test('areas have unique names, and renaming or removing one refreshes the tokens of its people', async t => {
  const { users, audit } = await openStore(t, postgres)
  const north = await users.createArea(actor, 'Norte')
  await users.createArea(actor, 'Sul')
  await t.rejects(users.createArea(actor, 'NORTE'), { code: 'GW_CONFLICT' })
  await t.rejects(users.renameArea(actor, north.id, 'sul'), { code: 'GW_CONFLICT' })
  for (const name of ['', '  ', 'x'.repeat(65), 'a\nb', 'a\0b', '\ud800', 7 as unknown as string]) {
    await t.rejects(users.createArea(actor, name), { code: 'GW_BAD_REQUEST' })
  }
  const both = (await users.syncPerson(person('both'))).user.id
  const northern = (await users.syncPerson(person('only'))).user.id
  const none = (await users.syncPerson(person('none'))).user.id
  await users.setAccess(actor, both, { profiles: ['Agente'], areas: ['Norte', 'Sul'], areaPrincipal: 'Norte' })
  await users.setAccess(actor, northern, { profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte' })

  t.same(await users.renameArea(actor, north.id, 'Nordeste'), { id: north.id, name: 'Nordeste' })
  t.match(await users.loadPerson(both), { version: 2, lowestAcceptedVersion: 0, user: { areaPrincipal: 'Nordeste' } })
  await users.deleteArea(actor, north.id)
  t.match(await users.loadPerson(both), { version: 3, user: { areas: only('Sul'), areaPrincipal: 'Sul' } })
  t.match(await users.loadPerson(northern), {
    version: 3,
    user: { areas: only(), areaPrincipal: '', accessStatus: 'unassigned' }
  })
  t.match(await users.loadPerson(none), { version: 0 })
  await t.rejects(users.deleteArea(actor, north.id), { code: 'GW_NOT_FOUND' })
  t.match(await users.listAreas(), { items: [{ name: 'Sul' }], page: 1, pageSize: 50, total: 1 })
  t.match(await audit.list({ action: 'area.rename' }), {
    items: [{ target: `area:${north.id}`, before: { name: 'Norte' }, after: { name: 'Nordeste' } }]
  })
  t.match(await audit.list({ action: 'area.delete' }), {
    items: [{ target: `area:${north.id}`, before: { name: 'Nordeste' } }]
  })
  t.same(
    (await users.listProfiles()).map(profile => profile.name),
    ['Admin', 'Supervisor', 'Agente']
  )
})
