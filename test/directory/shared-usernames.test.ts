// Two people of a directory without entryUUID who share a uid are never taken for one person. LD-12, LD-14
import t from 'tap'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import type { LdapSettings } from '../../gateway/settings/settings.ts'
import { startOpenLdap } from '../support/openldap.ts'

const ldap = await startOpenLdap(t, { withoutEntryUuid: true })
const base = ldap.baseDn
const service = (overrides: Partial<LdapSettings> = {}) =>
  createDirectory(ldap.serviceSettings({ ...ldap.reader, ...overrides }), { failureFloorMs: 0 })
const login = (directory: ReturnType<typeof createDirectory>, name: string) =>
  directory.authenticate(name, ldap.password).then(
    ({ subject }) => subject,
    (error: unknown) => (error instanceof DirectoryFailure ? error.reason : String(error))
  )
const hire = (uid: string, mail: string, ou = 'people') => ldap.addPerson({ uid, mail, ou, password: ldap.password })

t.test('a filter that only one of them passes tells them apart', async t => {
  await hire('half', 'third@corp.example')
  await hire('half', 'fourth@corp.example', 'contractors')
  const ofPeople = service({ searchFilter: '(|(&(uid={{username}})(ou:dn:=people))(mail={{username}}))' })
  t.equal(await login(ofPeople, 'half'), 'half')
  t.match(await ofPeople.authenticate('half', ldap.password), { isUsernameShared: true })
  t.equal(await login(ofPeople, 'third@corp.example'), 'half')
  t.equal(await login(ofPeople, 'fourth@corp.example'), 'shared-username')
})

t.test('the same holds for a template by mail, without a service account', async t => {
  const dn = (mail: string, ou: string) => `mail=${mail},ou=${ou},${base}`
  const add = (mail: string, ou: string) =>
    ldap.add(dn(mail, ou), {
      objectClass: 'inetOrgPerson',
      cn: mail,
      sn: mail,
      uid: 'pair',
      mail,
      userPassword: ldap.password
    })
  await add('fifth@corp.example', 'people')
  const own = createDirectory(
    ldap.settings({ userDnTemplate: dn('{{username}}', 'people'), searchFilter: '(mail={{username}})' }),
    { failureFloorMs: 0 }
  )
  t.equal(await login(own, 'fifth@corp.example'), 'pair')
  await add('sixth@corp.example', 'contractors')
  t.equal(await login(own, 'fifth@corp.example'), 'shared-username')
})

t.test('a text that is the uid of somebody else identifies no entry without a uid', async t => {
  const add = (cn: string, more: object) =>
    ldap.add(`cn=${cn},ou=people,${base}`, {
      objectClass: 'inetOrgPerson',
      cn,
      sn: cn,
      userPassword: ldap.password,
      ...more
    })
  const byMail = service({ searchFilter: '(mail={{username}})' })
  await add('nameless', { mail: 'seventh@corp.example' })
  t.equal(await login(byMail, 'seventh@corp.example'), 'seventh@corp.example')
  t.match(await byMail.authenticate('seventh@corp.example', ldap.password), { isUsernameShared: false })
  await add('named', { mail: 'eighth@corp.example', uid: 'seventh@corp.example' })
  t.equal(await login(byMail, 'seventh@corp.example'), 'shared-username')
})

t.test('a recheck does not take the new owner of an address for the former one', async t => {
  const [one, other] = [await hire('former', 'moving@corp.example'), await hire('latter', '')]
  const known = { subject: 'former', login: 'moving@corp.example' }
  t.match(await service().lookUp(known), { state: 'open' })
  await ldap.replace(one, 'mail', [])
  await ldap.replace(other, 'mail', ['moving@corp.example'])
  t.match(await service().lookUp(known), { state: 'gone' })
})
