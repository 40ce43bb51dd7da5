// A right password that has to be changed is not a wrong one: it spends no permit, and the answer says what to do.
// RV-61, LD-12, LD-14
import t from 'tap'
import { startGateway, type World } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { attributesOf, BASE_DN, dnOf, ldifEntry } from '../support/openldap-people.ts'
import { startPostgres } from '../support/postgres.ts'

const MODES = { service: 'a service account', template: 'a DN template' } as const
/** People whose password is older than their policy allows: only a new directory can be given such a past. */
const oldPeople = Object.keys(MODES).flatMap(mode =>
  [
    { uid: `old-${mode}`, policy: 'expiring' },
    { uid: `grace-${mode}`, policy: 'graceful' }
  ].map(({ uid, policy }) =>
    ldifEntry(dnOf({ uid }), {
      ...attributesOf({ uid, password: SAMPLE_PASSWORD }),
      pwdChangedTime: '20200101000000Z',
      pwdPolicySubentry: `cn=${policy},ou=policies,${BASE_DN}`
    })
  )
)
const ldap = await startOpenLdap(t, { lockoutThreshold: 5, ldif: oldPeople.join('\n\n') })
const policy = (name: string) => `cn=${name},ou=policies,${ldap.baseDn}`
const addPolicy = (cn: string, rules: Record<string, string>) =>
  ldap.add(policy(cn), {
    objectClass: ['applicationProcess', 'pwdPolicy'],
    cn,
    pwdAttribute: 'userPassword',
    pwdLockout: 'TRUE',
    pwdMaxFailure: '5',
    ...rules
  })
await addPolicy('must-change', { pwdMustChange: 'TRUE' })
await addPolicy('expiring', { pwdMaxAge: '1' })
await addPolicy('graceful', { pwdMaxAge: '1', pwdGraceAuthNLimit: '2' })

const ENV = { service: ldap.serviceEnv, template: ldap.env }

const answerOf = async (world: World, username: string, password?: string) => {
  const answer = await postLogin(world, username, { password })
  const { code, message } = (await answer.json()) as { code?: string; message?: string }
  return { status: answer.status, code, message }
}
const EXPIRED = { status: 401, code: 'GW_PASSWORD_EXPIRED', message: 'Autenticacao falhou' }
const WRONG = { status: 401, code: 'GW_LOGIN_FAILED', message: 'Autenticacao falhou' }

for (const mode of ['service', 'template'] as const) {
  const what = MODES[mode]
  t.test(`a password that must be changed is refused each time, and the new one is taken at once: ${what}`, async t => {
    const postgres = await startPostgres(t)
    const world = await startGateway(t, { postgres, env: ENV[mode] })
    const uid = `reset-${mode}`
    const dn = await ldap.addPerson({ uid, password: ldap.password })
    await ldap.replace(dn, 'pwdPolicySubentry', [policy('must-change')])
    await ldap.replace(dn, 'pwdReset', ['TRUE'])
    for (let n = 0; n < 7; n++) t.same(await answerOf(world, uid), EXPIRED)
    t.same(await answerOf(world, uid, 'errada'), WRONG, 'a wrong password learns nothing')
    await ldap.replace(dn, 'pwdReset', [])
    t.equal((await postLogin(world, uid)).status, 200)
    await world.gateway.close()
    const failed = await postgres.query(
      "SELECT details->>'reason' AS reason FROM audit_events WHERE action = 'login.failed' ORDER BY id LIMIT 1"
    )
    t.same(failed, [{ reason: 'password-must-change' }])
  })

  t.test(`an expired password spends no permit, and a grace login is a login: ${what}`, async t => {
    const postgres = await startPostgres(t)
    const world = await startGateway(t, { postgres, env: ENV[mode] })
    const old = `old-${mode}`
    for (let n = 0; n < 7; n++) t.same(await answerOf(world, old), EXPIRED)
    await ldap.replace(dnOf({ uid: old }), 'pwdPolicySubentry', [])
    t.equal((await postLogin(world, old)).status, 200)
    const grace = `grace-${mode}`
    t.same(
      [(await postLogin(world, grace)).status, (await postLogin(world, grace)).status, await answerOf(world, grace)],
      [200, 200, EXPIRED]
    )
  })
}
