// A group of a real directory gives what a grant says, from the login on, and its DN can be found by its cn.
import t from 'tap'
import { portariaHere } from '../support/cli-here.ts'
import { startGateway } from '../support/gateway.ts'
import { logIn } from '../support/login.ts'
import { only } from '../support/only.ts'
import { startOpenLdap } from '../support/openldap.ts'

t.test('members of a directory group log in with what it is granted', async t => {
  const ldap = await startOpenLdap(t)
  const group = `cn=Suporte,ou=groups,${ldap.baseDn}`
  await ldap.add(`ou=groups,${ldap.baseDn}`, { objectClass: 'organizationalUnit', ou: 'groups' })
  await ldap.add(group, { objectClass: 'groupOfNames', cn: 'Suporte', member: [`uid=maria,ou=people,${ldap.baseDn}`] })
  const env = {
    ...ldap.serviceEnv
  }
  const grants = [{ group: group.toUpperCase(), profiles: ['Supervisor'], areas: ['Suporte'] }]
  const world = await startGateway(t, { env, config: { grants } })
  const enter = (username: string) => logIn(world, username)
  t.match((await enter('maria')).user, {
    profiles: only('Supervisor'),
    areas: only('Suporte'),
    accessStatus: 'assigned'
  })
  t.match((await enter('carlos')).user, { profiles: only(), areas: only(), accessStatus: 'unassigned' })

  const settings = { ...env, JWT_SECRET: 'a secret for tests, long enough and used nowhere else' }
  const found = await portariaHere(['grants', '--find', 'SUPORTE', '--json'], { env: settings })
  t.same(found.json(), [group])
  const nothing = await portariaHere(['grants', '--find', 'Suporte*'], { env: settings })
  t.equal(nothing.code, 1)
  t.match(nothing.stderr, /no group with the cn/)
})
