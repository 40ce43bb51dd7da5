// What membership of groups gives, of the directory and of the cloud provider.
import t from 'tap'
import { createGrants, type Grant, groupKey, NO_GRANTS, namesIn } from '../../gateway/routes/grants.ts'

const grant = (provider: 'ldap' | 'cloudidp', group: string, profiles: string[], tenant?: string): Grant => ({
  provider,
  group,
  tenant,
  profiles,
  areas: [`area of ${profiles.join()}`],
  place: { file: 'a.yaml', line: 1, column: 1 }
})
const LIST = [
  grant('ldap', 'cn=Desk,dc=corp', ['Agente']),
  grant('cloudidp', 'desk', ['Supervisor']),
  grant('ldap', 'CN=desk, DC=Corp', ['Admin']),
  grant('cloudidp', 'desk', ['Auditor'], 'tenant-1'),
  grant('ldap', 'no name of a group', ['Nobody'])
]
const grants = createGrants(LIST)
const desk = groupKey('ldap', 'cn=desk,dc=corp') ?? ''
const profilesOf = (...seen: Parameters<typeof grants.of>[0]) => namesIn(grants.of(seen), 'profiles')

t.test('a group gives what all of its grants say, in the order of the files, and to no other provider', async t => {
  t.same(profilesOf({ provider: 'ldap', tenant: '', groups: [desk] }), ['Agente', 'Admin'])
  t.same(profilesOf({ provider: 'cloudidp', tenant: 'tenant-2', groups: ['desk', 'desk'] }), ['Supervisor'])
  t.same(profilesOf({ provider: 'cloudidp', tenant: 'tenant-1', groups: ['desk'] }), ['Supervisor', 'Auditor'])
  t.same(
    profilesOf(
      { provider: 'cloudidp', tenant: '', groups: ['other', 'desk'] },
      { provider: 'ldap', tenant: '', groups: [desk] }
    ),
    ['Agente', 'Supervisor', 'Admin']
  )
  for (const groups of [[], ['Desk'], [desk], ['no name of a group']])
    t.same(profilesOf({ provider: 'cloudidp', tenant: '', groups }), [])
  for (const groups of [['desk'], ['no name of a group'], ['undefined'], ['']])
    t.same(profilesOf({ provider: 'ldap', tenant: '', groups }), [])
  t.same(NO_GRANTS.of([{ provider: 'ldap', tenant: '', groups: [desk] }]), [])
})

t.test('the checksum says whether somebody could be given something else', async t => {
  const [first, ...others] = LIST as [Grant, ...Grant[]]
  const sumOf = (changed: Partial<Grant>) => createGrants([{ ...first, ...changed }, ...others]).checksum
  t.match(grants.checksum, /^[0-9a-f]{64}$/)
  t.equal(sumOf({ place: { file: 'b.yaml', line: 2, column: 3 } }), grants.checksum, 'where it is written says nothing')
  t.not(sumOf({ profiles: ['Admin'] }), grants.checksum)
  t.not(sumOf({ areas: [] }), grants.checksum)
  t.not(sumOf({ tenant: 'x' }), grants.checksum)
})
