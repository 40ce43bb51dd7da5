// What keeps people from logging in shows in /health and as one warning per change, whether or not anybody tries.
// LD-20, DF-05
import t from 'tap'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { startDirectoryWatch } from '../../gateway/directory/watch.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t)
const postgres = await startPostgres(t)
const service = { ...ldap.serviceEnv, LDAP_TIMEOUT_MS: '900', LOG_LEVEL: 'warn' }

const stateIs = async (world: World, state: string): Promise<void> => {
  await until(async () => (await world.health()).checks.directory === state)
}

t.test('a directory that goes away and comes back is one warning each, at LOG_LEVEL=warn', async t => {
  const world = await startGateway(t, { postgres, env: service })
  await stateIs(world, 'ok')
  // On a busy machine another check may not be well yet.
  await until(async () => (await world.health()).status === 'ok')
  await ldap.stop()
  t.equal((await postLogin(world, 'maria')).status, 401)
  await stateIs(world, 'away')
  t.match(await world.health(), { status: 'degraded' })
  await ldap.start()
  await stateIs(world, 'ok')
  t.match(
    world.log.filter(({ reason }) => /^directory-/.test(String(reason))).map(({ level, reason }) => [level, reason]),
    [
      [40, 'directory-away'],
      [40, 'directory-ok']
    ]
  )
})

t.test('a frozen directory is away, and so is one whose certificate is not trusted', async t => {
  ldap.freeze()
  t.teardown(ldap.thaw)
  await stateIs(await startGateway(t, { postgres, env: service }), 'away')
  ldap.thaw()
  // On a busy machine the handshake may take longer than logins may, and only the first failure is logged.
  const distrusted = { ...service, LDAP_URL: ldap.ldapsUrl, LDAP_TIMEOUT_MS: '60000' }
  const world = await startGateway(t, { postgres, env: distrusted })
  await stateIs(world, 'away')
  await world.logged(({ reason, err }) => reason === 'directory-away' && /TLS/.test(JSON.stringify(err)))
})

t.test('a refused service account shows as refused; the log says what to check, and no password', async t => {
  const env = { ...service, LDAP_BIND_PASSWORD: 'nao-e-a-senha-dela' }
  const world = await startGateway(t, { postgres, env })
  await stateIs(world, 'refused')
  t.match(await world.health(), { status: 'degraded' })
  t.match(await world.logged(({ reason }) => reason === 'directory-refused'), { msg: /LDAP_BIND_DN/ })
  t.notMatch(world.logText(), /nao-e-a-senha-dela/)
})

t.test('a directory is looked at again when a login shows that it may be away, until the watch ends', async t => {
  let looks = 0
  const watch = startDirectoryWatch({ check: async () => void looks++, missingBases: async () => [] }, quiet)
  const notice = async (reason: 'directory-unreachable' | 'invalid-credentials' | undefined) => {
    watch.notice(reason === undefined ? new Error('x') : new DirectoryFailure(reason, 'x'))
    await new Promise(setImmediate)
    return looks
  }
  await new Promise(setImmediate)
  t.equal(watch.state(), 'ok')
  t.equal(await notice('invalid-credentials'), 1)
  t.equal(await notice(undefined), 1)
  t.equal(await notice('directory-unreachable'), 2)
  await watch.close()
  t.equal(await notice('directory-unreachable'), 2)
})
