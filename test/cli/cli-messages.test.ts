// What commands say besides their result: what they checked, what they left out, and what to do when they cannot run.
import { Readable } from 'node:stream'
import t from 'tap'
import { withDatabase } from '../../gateway/cli/open-store.ts'
import { readAll } from '../../gateway/cli/read-input.ts'
import { DatabaseUnavailable } from '../../gateway/store/database-errors.ts'
import { checkSaid, portariaHere as portaria } from '../support/cli-here.ts'
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
  const says = [
    /a\.yaml:4:\d+: unknown role "Amdin"/,
    /a\.yaml:3:5: this public catch-all .*\(warning\)/,
    /PORT must be a whole number/,
    /DATABSE_URL is unknown.*\(warning\)/
  ]
  await checkSaid(t, broken, [['check FOLDER', 1, ...says]], { env: { JWT_SECRET, PORT: 'http', DATABSE_URL: 'x' } })
})

t.test('explain, matrix and grants name the folder that they checked', async t => {
  const named = new RegExp(`Route files: ${folder};`)
  await checkSaid(t, folder, [
    ['explain GET /x --config FOLDER', 0, named],
    ['matrix --config FOLDER', 0, named],
    ['grants --config FOLDER', 0, new RegExp(`The route files in ${folder} grant nothing`)]
  ])
  // A refusal is an answer.
  const says = new RegExp(`"decision": 403(?:.|\\n)*"folder": "${folder}"`)
  await checkSaid(t, folder, [['explain GET /x --as Agente --json', 0, says]], { env: { UPSTREAM_CONFIG: folder } })
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
  const { stdout } = await examine(t, [], ['--private', '/private/data'])
  for (const option of ['--token', '--with-secret', '--public', '--websocket'])
    t.match(stdout, new RegExp(`Not tried: .*${option}`), option)
  t.match(stdout, /Never tried: requests that change data/)
  const expired = await examine(t, [], ['--private', '/private/data', '--token', 'an.expired.token'])
  t.match(expired.stdout, /Not tried: what a backend receives.* \(--token, which is not valid here\)/)
  const open = await examine(t, [], ['--private', '/public', '--token', 'a.good.token'])
  t.notMatch(open.stdout, /not valid here/, 'where no path is closed, the token was not tried')
})

t.test('a password that is piped in is read as it is written, in whatever pieces it arrives', async t => {
  const bytes = Buffer.from('\ufeffsenha é')
  const stdin = Readable.from([bytes.subarray(0, -1), bytes.subarray(-1)])
  t.equal(await readAll({ stdin }), 'senha é')
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
    // 28000 is the code of a refused user.
    const wrong = await portaria(['audit', 'verify'], { env: { DATABASE_URL: `${DATABASE_URL}_28000_none` } })
    t.match(wrong.stderr, /database cannot be used \(DATABASE_URL, 127\.0\.0\.1:\d+\/\w+_28000_none\): /)
    t.match(wrong.stderr, /There is no database with this name: create it/)
  })

  await t.test('grants counts the people of each group', async t => {
    const group = 'CN=Suporte,DC=corp,DC=example'
    const granting = await routeFolder(t, {
      'a.yaml': `${ROUTES}grants: [{ group: "${group}", profiles: [Agente], areas: [Sul] }]\n`
    })
    const asked = 'grants --config FOLDER'
    const none = /People are not counted\. There is no database in /
    await checkSaid(t, granting, [[asked, 0, none]], { env: { DATA_DIR: granting } })
    const dead = /not counted\. The database cannot be used \(DATABASE_URL, 127.*_none\): /
    await checkSaid(t, granting, [[asked, 0, dead]], { env: { DATABASE_URL: `${DATABASE_URL}_none` } })
    const { user } = await users.syncPerson(person('ana'))
    const { groupKey } = await import('../../gateway/routes/grants.ts')
    const insert = "INSERT INTO person_groups (user_id, provider, groups) VALUES ($1, 'ldap', ARRAY[$2])"
    await postgres.query(insert, [user.id, groupKey('ldap', group)], DATABASE_URL)
    const counted = /people +place\n.*Sul +1 +/
    await checkSaid(
      t,
      granting,
      [
        [asked, 0, counted],
        [`${asked} --json`, 0, /"people": 1\b/]
      ],
      { env }
    )
  })

  await t.test('keys rotate says when the gateways publish the new key and sign with it', async t => {
    const says = /has been created\. Running gateways publish it within a minute and sign with it from \d{4}-/
    await checkSaid(t, folder, [['keys rotate', 0, says]], { env })
  })
})
