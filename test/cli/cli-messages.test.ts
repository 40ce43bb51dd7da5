// What commands say besides their result: what they checked, what they left out, and what to do when they cannot run.
import { join } from 'node:path'
import t from 'tap'
import { withDatabase } from '../../gateway/cli/open-store.ts'
import { DatabaseUnavailable } from '../../gateway/store/database-errors.ts'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { examine } from '../support/doctor.ts'
import { startPostgres } from '../support/postgres.ts'
import { routeFolder } from '../support/route-files.ts'
import { openStore, person } from '../support/store.ts'
import { TEST_SECRET } from '../support/test-secret.ts'

const ROUTES = `upstreams: { up: { url: http://h } }
routes:
  - { path: /*, upstream: up, public: true }
  - { path: /x, upstream: up, roles: [Admin] }
`
const folder = await routeFolder(t, { 'a.yaml': ROUTES })
const JWT_SECRET = '0123456789abcdef'.repeat(4)

t.test('check shows warnings beside mistakes, of route files and of settings', async t => {
  const broken = await routeFolder(t, { 'a.yaml': ROUTES.replace('[Admin]', '[Amdin]') })
  const env = { JWT_SECRET, PORT: 'http', DATABSE_URL: 'x' }
  const { code, stdout } = await portaria(['check', broken], { env })
  t.equal(code, 1)
  t.match(stdout, /a\.yaml:4:\d+: unknown role "Amdin"/)
  t.match(stdout, /a\.yaml:3:5: this public catch-all .*\(warning\)/)
  t.match(stdout, /PORT must be a whole number/)
  t.match(stdout, /DATABSE_URL is unknown.*\(warning\)/)
})

t.test('explain, matrix and grants name the folder that they checked', async t => {
  for (const args of [['explain', 'GET', '/x'], ['matrix']]) {
    const { code, stdout } = await portaria([...args, '--config', folder])
    t.equal(code, 0)
    t.ok(stdout.includes(`Route files: ${folder};`), args.join(' '))
  }
  const asked = await portaria(['explain', 'GET', '/x', '--as', 'Agente', '--json'], {
    env: { UPSTREAM_CONFIG: folder }
  })
  t.match(asked.json(), { decision: 403, folder })
  t.equal(asked.code, 0, 'a refusal is an answer')
  t.match((await portaria(['grants', '--config', folder])).stdout, `The route files in ${folder} grant nothing`)
  const none = await portaria(['matrix', '--config', join(folder, 'none')])
  t.equal(none.code, 2)
  t.match(none.stderr, /none cannot be read: set UPSTREAM_CONFIG/)
})

t.test('each mistake in the settings has a line, and a string in JSON', async t => {
  const cases: readonly (readonly [args: string[], env: Record<string, string>, variables: string[]])[] = [
    [['grants', '--find', 'x'], { LDAP_ENABLED: 'true' }, ['JWT_SECRET', 'LDAP_DOMAIN', 'LDAP_URL']],
    [
      ['keys', 'rotate'],
      { JWT_SECRET: '<secret>', JWT_PREVIOUS_SECRETS: '<secret>' },
      ['JWT_PREVIOUS_SECRETS', 'JWT_SECRET']
    ]
  ]
  for (const [args, env, variables] of cases) {
    const { code, stderr } = await portaria(args, { env })
    t.equal(code, 2)
    const [first, ...lines] = stderr.trimEnd().split('\n')
    t.equal(first, 'These settings have errors:')
    t.same(lines.map(line => line.split(' ', 1)[0]).toSorted(), variables)
    const { details } = (await portaria([...args, '--json'], { env })).json<{ details: string[] }>()
    t.same(details, lines)
  }
})

t.test('the doctor says what it did not try', async t => {
  const all = await examine(t)
  t.match(all.json<{ notTried: string[] }>().notTried, [/^HTTP\/2/])
  const { stdout } = await examine(t, undefined, ['--private', '/private/data'])
  for (const option of ['--token', '--with-secret', '--public', '--websocket'])
    t.match(stdout, new RegExp(`Not tried: .*${option}`), option)
  t.match(stdout, /Never tried: requests that change data/)
})

t.test('with a database', async t => {
  const postgres = await startPostgres(t)
  const { url: DATABASE_URL, users } = await openStore(t, postgres)
  const env = { DATABASE_URL, JWT_SECRET: TEST_SECRET }

  await t.test('one that goes away halfway is reported as such', async t => {
    const lost = withDatabase({ DATABASE_URL }, () => {
      throw new DatabaseUnavailable(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }))
    })
    await t.rejects(lost, { name: 'CannotRun', message: /The database no longer responds .*: read ECONNRESET/ })
    const wrong = await portaria(['audit', 'verify'], { env: { DATABASE_URL: `${DATABASE_URL}_none` } })
    t.match(wrong.stderr, /database cannot be used \(DATABASE_URL, 127\.0\.0\.1:\d+\/\w+_none\): /)
    t.match(wrong.stderr, /There is no database with this name: create it/)
  })

  await t.test('grants counts the people of each group', async t => {
    const group = 'CN=Suporte,DC=corp,DC=example'
    const granting = await routeFolder(t, {
      'a.yaml': `${ROUTES}grants: [{ group: "${group}", profiles: [Agente], areas: [Sul] }]\n`
    })
    const args = ['grants', '--config', granting]
    const without = await portaria(args, { env: { DATA_DIR: granting } })
    t.equal(without.code, 0)
    t.match(without.stdout, /People are not counted\. There is no database in /)
    const dead = await portaria(args, { env: { DATABASE_URL: `${DATABASE_URL}_none` } })
    t.equal(dead.code, 0)
    t.match(
      dead.stdout.replaceAll('\n', ' '),
      /not counted\. The database cannot be used \(DATABASE_URL, 127.*_none\): /
    )
    const { user } = await users.syncPerson(person('ana'))
    const { groupKey } = await import('../../gateway/routes/grants.ts')
    const insert = "INSERT INTO person_groups (user_id, provider, groups) VALUES ($1, 'ldap', ARRAY[$2])"
    await postgres.query(insert, [user.id, groupKey('ldap', group)], DATABASE_URL)
    t.match((await portaria([...args, '--json'], { env })).json(), [{ group, people: 1 }])
    t.match((await portaria(args, { env })).stdout, /people +place\n.*Sul +1 +/)
  })

  await t.test('keys rotate says when the gateways publish the new key and sign with it', async t => {
    const { code, stdout } = await portaria(['keys', 'rotate'], { env })
    t.equal(code, 0)
    t.match(stdout, /has been created\. Running gateways publish it within a minute and sign with it from \d{4}-/)
  })
})
