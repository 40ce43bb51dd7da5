// People: synchronised from their provider once and never merged, given access by Admins, never without the last Admin.
import t from 'tap'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { actor, openStore, person } from '../support/store.ts'

const postgres = await startPostgres(t)
const ADMIN = { profiles: ['Admin'], areas: ['Geral'], areaPrincipal: 'Geral' }
const NOTHING = { profiles: [], areas: [], areaPrincipal: null }

// OA-12, LD-07, LD-18
t.test('two people with one e-mail stay two people, and a login updates only its own', async t => {
  const { users } = await openStore(t, postgres)
  const ids: number[] = []
  for (const [subject, more] of [
    ['boss', { email: 'boss@corp' }],
    ['s-1', { provider: 'cloudidp', issuer: 'https://idp', email: 'boss@corp' }],
    ['s-1', { provider: 'cloudidp', issuer: 'https://idp2', email: 'BOSS@corp' }],
    ['BOSS', { email: 'boss@corp' }]
  ] as const)
    ids.push((await users.syncPerson(person(subject, more))).user.id)
  t.equal(new Set(ids).size, 4)
  const again = await users.syncPerson(person('boss', { email: 'new@corp', name: 'New Name' }))
  t.match(again, { firstLogin: false, user: { id: ids[0], email: 'new@corp', name: 'New Name' } })
  t.match(await users.loadPerson(ids[1] ?? 0), { user: { email: 'boss@corp' } })
})

// DF-06
t.test('a login without a usable subject or issuer is refused and finds nobody', async t => {
  const { users } = await openStore(t, postgres)
  await users.syncPerson(person('maria'))
  for (const subject of ['', 'a\0b', '\ud800', 'x'.repeat(600), undefined, null, {}, 7]) {
    await t.rejects(users.syncPerson({ ...person('x'), subject: subject as string }), { code: 'GW_LOGIN_FAILED' })
    await t.rejects(users.syncPerson({ ...person('x'), issuer: subject as string }), { code: 'GW_LOGIN_FAILED' })
  }
  t.equal((await users.listPeople()).total, 1)
  for (const id of [0, -1, 1.5, Number.NaN, 2 ** 40, undefined, '1']) {
    t.equal(await users.loadPerson(id as number), undefined)
  }
})

t.test('what a directory says is bounded and storable', async t => {
  const { users } = await openStore(t, postgres)
  const { user } = await users.syncPerson(
    person('odd', { name: `a\0b${'é'.repeat(999)}`, email: '\ud800x', username: '  odd ' })
  )
  t.match(user, { name: `abé${'é'.repeat(253)}`, email: '\ufffdx', username: 'odd' })
  t.equal([...user.name].length, 256)
  const missing = await users.syncPerson({ ...person('m'), name: undefined as unknown as string })
  t.equal(missing.user.name, '')
})

// AD-07
t.test('a bootstrap entry makes an Admin once, and what Admins change later stands', async t => {
  const { users, audit } = await openStore(t, postgres)
  const bootstrapAdmins = [
    { provider: 'ldap', subject: 'Maria' },
    { provider: 'cloudidp', subject: 'abc' },
    { provider: 'ldap', subject: 'José'.normalize('NFD') }
  ] as const
  const sync = (subject: string, more: Parameters<typeof person>[1]) =>
    users.syncPerson(person(subject, { bootstrapAdmins, ...more }))
  const cloud = { provider: 'cloudidp', issuer: 'https://idp' } as const
  const first = await Promise.all(Array.from({ length: 20 }, () => sync('guid-1', { username: 'maria' })))
  for (const login of first)
    t.match(login, { version: 0, user: { profiles: only('Admin'), areas: only('Geral'), areaPrincipal: 'Geral' } })
  t.equal(new Set(first.map(({ user }) => user.id)).size, 1)
  t.equal((await audit.list({ action: 'access.bootstrap' })).total, 1)
  t.match((await sync('guid-4', { username: 'josé' })).user, { profiles: only('Admin') })
  // Neither the other spelling of a cloud subject nor the e-mail nor the other provider's login meets an entry.
  for (const subject of ['ABC', 'Maria'])
    t.match((await sync(subject, { ...cloud, email: 'maria' })).user, { profiles: only(), areas: only() })
  const { user } = await sync('abc', cloud)
  t.match(user, { profiles: only('Admin'), areas: only('Geral') })
  await users.setAccess(actor, user.id, NOTHING)
  t.match(await sync('abc', cloud), {
    version: 1,
    user: { profiles: only(), areas: only(), accessStatus: 'unassigned' }
  })
  // A name that several accounts have proves nothing.
  const shared = {
    username: 'maria',
    isUsernameShared: true,
    bootstrapAdmins: [{ provider: 'ldap', subject: 'maria' }]
  } as const
  t.match((await (await openStore(t, postgres)).users.syncPerson(person('guid-3', shared))).user, { profiles: only() })
  // Somebody else who is given the login later does not inherit the entry.
  t.match((await sync('guid-2', { username: 'maria' })).user, { profiles: only() })
  // An entry that is written after the first login counts from the next; earlier tokens are stale.
  await users.syncPerson(person('late'))
  const late = await sync('late', { bootstrapAdmins: [{ provider: 'ldap', subject: 'late' }] })
  t.match(late, { version: 1, user: { profiles: only('Admin') } })
})

t.test('a change raises the version, an ending the lowest accepted one, and both are audited', async t => {
  const { users, audit, tokenState } = await openStore(t, postgres)
  const { user } = await users.syncPerson(person('maria'))
  await users.createArea(actor, 'Norte')
  await users.createArea(actor, 'Sul')
  const access = { profiles: ['Agente', 'Supervisor'], areas: ['Sul', 'Norte'], areaPrincipal: 'Sul' }
  t.match(await users.setAccess(actor, user.id, access), {
    version: 1,
    lowestAcceptedVersion: 0,
    user: {
      profiles: only('Supervisor', 'Agente'),
      perfis: only('Supervisor', 'Agente'),
      areas: only('Norte', 'Sul'),
      areaPrincipal: 'Sul',
      accessStatus: 'assigned'
    }
  })
  t.match(await users.setAccess(actor, user.id, access), { version: 1 }, 'nothing changed')
  const twice = { ...access, profiles: ['Agente', 'Agente'] }
  await t.rejects(users.setAccess(actor, user.id, twice), { code: 'GW_BAD_REQUEST' })
  await users.revokePerson(actor, user.id)
  t.match(await users.loadPerson(user.id), { version: 2, lowestAcceptedVersion: 2, disabled: false })
  await users.disablePerson(actor, user.id)
  await users.disablePerson(actor, user.id)
  t.match(await users.syncPerson(person('maria', { name: 'changed' })), { disabled: true, user: { name: 'MARIA' } })
  await users.enablePerson(actor, user.id)
  t.match(await users.loadPerson(user.id), { version: 3, lowestAcceptedVersion: 3, disabled: false })
  t.same((await tokenState.loadRevocations()).versions, [{ userId: user.id, version: 3, lowestAccepted: 3 }])
  const { items } = await audit.list({ user: user.id })
  const actions = items.map(item => item.action)
  t.same(actions, ['person.enable', 'person.disable', 'person.revoke', 'access.set'])
  t.match(items.at(-1), {
    actor: { id: null, username: 'test' },
    target: `user:${user.id}`,
    before: { profiles: only(), areas: only(), areaPrincipal: null },
    after: { profiles: only('Supervisor', 'Agente'), areas: only('Norte', 'Sul'), areaPrincipal: 'Sul' },
    requestId: 'r-1',
    ip: '127.0.0.1'
  })
})

// AD-06
t.test('the last Admin stays, also when two Admins remove each other at the same time', async t => {
  const one = await openStore(t, postgres)
  const two = await openStore(t, postgres, one.url)
  const bootstrapAdmins = [
    { provider: 'ldap', subject: 'a' },
    { provider: 'ldap', subject: 'b' }
  ] as const
  const a = (await one.users.syncPerson(person('a', { bootstrapAdmins }))).user.id
  await t.rejects(one.users.disablePerson(actor, a), { code: 'GW_LAST_ADMIN' })
  await t.rejects(one.users.setAccess(actor, a, NOTHING), { code: 'GW_LAST_ADMIN' })
  const b = (await one.users.syncPerson(person('b', { bootstrapAdmins }))).user.id
  for (let round = 0; round < 20; round++) {
    const removals = await Promise.allSettled([
      round % 2 === 0 ? one.users.setAccess(actor, b, NOTHING) : one.users.disablePerson(actor, b),
      round % 3 === 0 ? two.users.setAccess(actor, a, NOTHING) : two.users.disablePerson(actor, a)
    ])
    const refusals = removals.filter(({ status }) => status === 'rejected')
    t.match(refusals, [{ reason: { code: 'GW_LAST_ADMIN' } }])
    t.equal(refusals.length, 1, 'one of the two is refused')
    for (const id of [a, b]) {
      await one.users.enablePerson(actor, id)
      await one.users.setAccess(actor, id, ADMIN)
    }
  }
  t.same(await one.audit.verify(), { ok: true, entries: (await one.audit.list()).total })
})
