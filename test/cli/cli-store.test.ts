// People, service accounts, schema, audit log and tokens are looked after from the command line, beside a running gateway.
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import t from 'tap'
import { changeAccess } from '../../gateway/store/access.ts'
import { raiseVersions } from '../../gateway/store/access-changes.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { openDatabase } from '../../gateway/store/database.ts'
import { getPerson } from '../../gateway/store/people.ts'
import { lockAccess, query } from '../../gateway/store/query.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { demoPeople, startDemoDirectory } from '../demo/directory.ts'
import { portaria } from '../support/cli.ts'
import { portariaHere } from '../support/cli-here.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { startGateway } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { makeFolder } from '../support/server-process.ts'
import { actor, openStore, person } from '../support/store.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { until } from '../support/until.ts'

t.test('grant and audit verify work while a gateway runs on the embedded database', async t => {
  const DATA_DIR = makeFolder(t, 'cli')
  await fillDataDir(DATA_DIR)
  const database = await openDatabase({ dataDir: DATA_DIR, log: quiet })
  t.teardown(() => database.close())
  const { user } = await createUsers(database).syncPerson(person('maria'))
  t.equal(user.accessStatus, 'unassigned')
  const granted = await portaria(['grant', 'ldap:maria', '--profile', 'Admin', '--area', 'Geral', '--json'], {
    env: { DATA_DIR }
  })
  t.equal(granted.code, 0, granted.stderr)
  t.match(granted.json(), {
    username: 'maria',
    profiles: only('Admin'),
    areas: only('Geral'),
    areaPrincipal: 'Geral',
    accessStatus: 'assigned'
  })
  t.match(await createUsers(database).loadPerson(user.id), { user: { profiles: only('Admin') }, version: 1 })
  const { items } = await createAuditLog(database).list({ action: 'access.set' })
  t.match(items, [{ actor: { id: null, username: 'cli' }, target: `user:${user.id}` }])
  const verified = await portaria(['audit', 'verify'], { env: { DATA_DIR } })
  t.match(verified, { code: 0, stdout: /The audit log is whole: \d+ entries/ })
})

t.test('without a running gateway migrate makes the embedded database, and a wrong folder is reported', async t => {
  const DATA_DIR = makeFolder(t, 'cli')
  t.match(await portaria(['audit', 'verify'], { env: { DATA_DIR } }), { code: 2, stderr: /There is no database in/ })
  // In this process, whose flags suit an embedded database that lives for seconds.
  const migrated = await portariaHere(['migrate', '--json'], { env: { DATA_DIR } })
  t.equal(migrated.code, 0)
  t.match(migrated.json(), { ok: true, embedded: true })
  t.equal((await portariaHere(['audit', 'verify'], { env: { DATA_DIR } })).code, 0)
})

t.test('on Postgres', async t => {
  const postgres = await startPostgres(t)
  const { url: DATABASE_URL, users, database } = await openStore(t, postgres)
  const env = { DATABASE_URL, JWT_SECRET: TEST_SECRET }
  const grant = (...args: string[]) => portariaHere(['grant', ...args, '--json'], { env })

  await t.test('grant adds to what somebody has, and spells areas as they are spelled', async t => {
    const { user } = await users.syncPerson(person('ana'))
    await grant('ANA', '--profile', 'Agente', '--area', 'Norte')
    const more = await grant(`id:${user.id}`, '--profile', 'Supervisor', '--area', 'NORTE', 'Sul')
    t.match(more.json(), {
      profiles: only('Supervisor', 'Agente'),
      areas: only('Norte', 'Sul'),
      areaPrincipal: 'Norte'
    })
    t.equal(more.code, 0)
  })

  // RV-95
  await t.test('without the secret of the gateways nothing that belongs in the audit log is changed', async t => {
    const { user } = await users.syncPerson(person('lia'))
    const args = ['lia', '--profile', 'Agente', '--area', 'Norte']
    for (const foreign of [{}, { JWT_SECRET: 'another secret that is long enough for this' }]) {
      const { code, stderr } = await portariaHere(['grant', ...args], { env: { DATABASE_URL, ...foreign } })
      t.equal(code, 2)
      t.match(stderr.replaceAll('\n', ' '), /set JWT_SECRET as for the gateways; nothing was changed/)
      t.equal((await portariaHere(['audit', 'verify'], { env: { DATABASE_URL, ...foreign } })).code, 2)
    }
    t.match(await users.loadPerson(user.id), { user: { profiles: only(), areas: only() } })
  })

  // RV-33
  await t.test('profiles are named with accents as one character or as two', async t => {
    await database.write(manager => query(manager, 'INSERT INTO profiles (name) VALUES ($1)', ['Opera\u00e7\u00e3o']))
    await users.syncPerson(person('ivo'))
    const access = ['--profile', 'Operac\u0327a\u0303o', '--area', 'Norte']
    const granted = await grant('ivo', ...access)
    t.match(granted.json(), { profiles: only('Opera\u00e7\u00e3o') })
    const client = await portariaHere(['client', 'create', 'accents', ...access, '--json'], { env })
    t.match(client.json(), { profiles: only('Opera\u00e7\u00e3o') })
  })

  await t.test('grant keeps what an Admin changes at the same time', async t => {
    const { user } = await users.syncPerson(person('eva'))
    await grant('eva', '--profile', 'Supervisor', '--area', 'Norte')
    let granted: ReturnType<typeof grant> | undefined
    await database.write(async manager => {
      await lockAccess(manager)
      granted = grant('eva', '--profile', 'Agente', '--area', 'Sul')
      const waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
      await until(async () => (await query(manager, waiting)).length > 0, 'waits')
      const access = { profiles: [], areas: ['Norte'], areaPrincipal: 'Norte' }
      await changeAccess(manager, actor, await getPerson(manager, user.id), access)
      await raiseVersions(manager, [user.id])
    })
    t.match((await granted)?.json(), { profiles: only('Agente'), areas: only('Norte', 'Sul') })
  })

  await t.test('grant to somebody who is disabled is carried out, and says so', async t => {
    const { user } = await users.syncPerson(person('rita'))
    await users.disablePerson(actor, user.id)
    const granted = await grant(`id:${user.id}`, '--profile', 'Admin', '--area', 'Geral')
    t.equal(granted.code, 1)
    t.match(granted.json(), { profiles: only('Admin'), areas: only('Geral'), disabled: true })
    const text = await portariaHere(['grant', 'rita', '--profile', 'Admin', '--area', 'Geral'], { env })
    t.match(text, { code: 1, stdout: /now has Admin in Geral\.\n.*disabled and cannot log in/ })
    await users.enablePerson(actor, user.id)
    const fine = await grant('rita', '--profile', 'Admin', '--area', 'Geral')
    t.match([fine.code, fine.json()], [0, { disabled: false }])
  })

  await t.test('names that a provider has sent do not control the terminal', async t => {
    const { user } = await users.syncPerson(person('9', { username: 'ivone\u001b[8m', provider: 'cloudidp' }))
    const who = `id:${user.id}`
    const printed = [
      await portariaHere(['grant', who, '--profile', 'Agente', '--area', 'Sul'], { env }),
      await portariaHere(['unlock', who], { env }),
      await portariaHere(['erase', who, '--yes'], { env })
    ]
    for (const { code, stdout } of printed) t.match([code, stdout], [0, 'ivone\\u{1b}[8m (id '])
  })

  await t.test('grant wants exactly one person', async t => {
    await users.syncPerson(person('joao'))
    await users.syncPerson(person('joao', { provider: 'cloudidp', issuer: 'https://idp.example' }))
    const two = await portariaHere(['grant', 'joao', '--profile', 'Agente', '--area', 'Sul'], { env })
    t.match(two, { code: 2, stderr: /"joao" is not one person but several; specify which one:\nid:\d+ {2}ldap:joao/ })
    t.match((await grant('cloudidp:joao', '--profile', 'Agente', '--area', 'Sul')).json(), { provider: 'cloudidp' })
    const nobody = await portariaHere(['grant', 'nobody', '--profile', 'Agente', '--area', 'Sul'], { env })
    t.match(nobody, { code: 2, stderr: /People are known once they have logged in/ })
    const role = await portariaHere(['grant', 'ana', '--profile', 'Agent', '--area', 'Sul'], { env })
    t.match(role.stderr, /Unknown profile "Agent" \(did you mean "Agente"\?\)/)
  })

  await t.test("a number that is one person's id and another's name is not guessed", async t => {
    const { user } = await users.syncPerson(person('first'))
    await users.syncPerson(person(`${user.id}`))
    t.equal((await grant(`${user.id}`, '--profile', 'Agente', '--area', 'Sul')).code, 2)
    t.match((await grant(`ldap:${user.id}`, '--profile', 'Agente', '--area', 'Sul')).json(), { username: `${user.id}` })
  })

  await t.test('the database and the secret may be named by pipes, which can be read once', async t => {
    const out = join(makeFolder(t, 'pipes'), 'audit.jsonl')
    for (const args of [
      ['audit', 'verify'],
      ['audit', 'archive', '--before', '2020-01-31', '--out', out],
      ['keys', 'rotate']
    ])
      await t.resolves(portariaPiped(DATABASE_URL, args), args.join(' '))
  })

  await t.test('audit verify names the first entry that was changed', async t => {
    t.equal((await portaria(['audit', 'verify'], { env })).code, 0)
    await postgres.query('ALTER TABLE audit_events DISABLE TRIGGER ALL', [], DATABASE_URL)
    await postgres.query("UPDATE audit_events SET actor_username = 'nobody' WHERE id = 2", [], DATABASE_URL)
    const { code, stdout } = await portariaHere(['audit', 'verify'], { env })
    t.equal(code, 1)
    t.match(stdout, /was changed: entry 2 of/)
    const forget = "UPDATE audit_head SET entries = 0, last_hash = repeat('0', 64)"
    await postgres.query(`SET session_replication_role = replica; ${forget}`, [], DATABASE_URL)
    const emptied = await portariaHere(['audit', 'verify'], { env })
    t.match(emptied, { code: 1, stdout: /was changed: entry 1 of 0/ }, 'not merely empty')
  })

  await t.test('a database that cannot be reached is reported without its password', async t => {
    const { port } = postgres
    for (const url of [
      `postgres://postgres:s3cr3t-word@127.0.0.1:${port}/none`,
      'postgres://u:s3cr3t-word@127.0.0.1:1/x',
      'postgres://127.0.0.1:1/x?user=u&password=abc@s3cr3t-word',
      'mysql://s3cr3t-word'
    ]) {
      const { code, stdout, stderr } = await portariaHere(['migrate'], { env: { DATABASE_URL: url } })
      t.equal(code, 2)
      t.notMatch(stdout + stderr, /s3cr3t-word|\n\s+at /)
      t.match(stderr, /database cannot be used \(DATABASE_URL, |DATABASE_URL must be/)
      t.match(stderr, /Nothing listens at this address: start|create it, or correct the name|must be postgres:/)
    }
  })
})

t.test('service accounts', async t => {
  const postgres = await startPostgres(t)
  const world = await startGateway(t, { postgres })
  const env = { DATABASE_URL: postgres.url, JWT_SECRET: TEST_SECRET }
  const create = ['client', 'create', 'ci', '--profile', 'Agente', '--area', 'Norte']
  const token = (id: string, secret: string) =>
    portariaHere(['token', '--url', world.url, '--client-id', id, '--secret-stdin'], { input: `${secret}\n` })

  await t.test('a service account is made with a new area, gets a token, is rotated, listed and removed', async t => {
    const made = await portariaHere([...create, '--address', '127.0.0.0/8', '--json'], { env })
    t.equal(made.code, 0, made.stderr)
    const { clientId, clientSecret, id } = made.json<{ clientId: string; clientSecret: string; id: number }>()
    const first = await token(clientId, clientSecret)
    t.equal(first.code, 0, first.stderr)
    t.match(await world.json('/auth/me', { token: first.stdout.trim() }), { id, username: 'ci', provider: 'client' })

    const rotated = await portariaHere(['client', 'rotate', 'ci'], { env })
    t.match(rotated.stdout, /client_secret {2}ps_[\w-]{43}/)
    t.equal((await token(clientId, clientSecret)).code, 0, 'the secret before lives for another day')

    const list = await portariaHere(['client', 'list'], { env })
    t.match(list.stdout, /ci {2}pc_/)
    t.match(list.stdout, /Agente in Norte/)
    t.notMatch(list.stdout, /ps_[\w-]{43}/)

    t.equal((await portariaHere(['client', 'remove', 'ci'], { env })).code, 0)
    t.match(await token(clientId, clientSecret), { code: 1, stderr: /401 invalid_client/ })
  })

  await t.test('what cannot be done is said', async t => {
    const rows: [string[], RegExp][] = [
      [
        ['client', 'create', 'x', '--profile', 'Nobody', '--area', 'Norte'],
        /Unknown profile "Nobody": must be one of Admin, Supervisor, Agente/
      ],
      [[...create, '--expires', 'soon'], /expiresAt must be a time in the future/],
      [[...create, '--expires', ''], /--expires is empty: leave it out for an account that does not expire/],
      [[...create, '--address', 'here'], /addresses\/0 must be an IP address/],
      [['client', 'rotate', 'nobody'], /There is no service account "nobody"/],
      [['token', '--client-id', 'x', '--username', 'maria'], /not with a person's name/]
    ]
    for (const [args, message] of rows) {
      const { code, stderr } = await portariaHere(args, { env })
      t.equal(code, 2, args.join(' '))
      t.match(stderr.replaceAll(/\s+/g, ' '), message)
    }
  })

  await t.test('a service account that is not made leaves no new area behind', async t => {
    const made = await portariaHere([...create, 'Sul', ' norte'], { env })
    t.equal(made.code, 0, made.stderr)
    t.equal((await portariaHere([...create, 'Leste'], { env })).code, 2)
    const areas = await postgres.query(
      "SELECT name FROM areas WHERE name IN ('Norte', 'norte', 'Sul', 'Leste') ORDER BY name"
    )
    t.same(areas, [{ name: 'Norte' }, { name: 'Sul' }])
  })
})

t.test('token logs in and prints the token alone; the password is neither shown nor an argument', async t => {
  const people = demoPeople(username => `senha-de-${username}`)
  const world = await startGateway(t, { env: await startDemoDirectory(t, people) })
  const args = ['token', '--url', world.url, '--username', 'maria', '--password-stdin']
  const { code, stdout, stderr } = await portariaHere(args, { input: 'senha-de-maria\n' })
  t.equal(code, 0, stderr)
  t.match(stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  t.equal((await world.fetch('/auth/me', { token: stdout.trim() })).status, 200)
  const json = await portariaHere([...args, '--json'], { input: 'senha-de-maria' })
  t.match(json.json(), { token: String, user: { username: 'maria' } })

  const wrong = await portariaHere(args, { input: 'wrong\n' })
  t.equal(wrong.code, 1)
  t.equal(wrong.stdout, '', 'a script does not take a refusal for a token')
  t.match(wrong.stderr, /401 GW_LOGIN_FAILED: Autenticacao falhou/)

  t.match(await portariaHere(['token', '--url', 'http://gateway.example']), { code: 2, stderr: /use https/ })
  const unasked = await portariaHere(['token', '--url', world.url, '--client-id', 'pc_x'])
  t.match(unasked, { code: 2, stderr: /no terminal for a prompt.*--client-id with --secret-stdin/ })

  const shown = await typeInTerminal(world.url, ['maria\r', 'senha-dx\u007fe-maria\r'])
  t.match(stripVTControlCharacters(shown), /Username: maria\s+Password: \s+[\w-]+\.[\w-]+\.[\w-]+/)
  t.notMatch(shown, /senha/)
})

const ENTRY = join(import.meta.dirname, '../../gateway/cli/portaria.ts')

/** Rejects unless the command succeeds. */
const portariaPiped = (url: string, args: readonly string[]) => {
  const piped = 'DATABASE_URL_FILE=<(printf %s "$FIRST") JWT_SECRET_FILE=<(printf %s "$SECOND") exec "$@"'
  const command = ['bash', process.execPath, ENTRY, '--env-file=/dev/null', ...args]
  const env = { PATH: process.env.PATH, FIRST: url, SECOND: TEST_SECRET }
  return promisify(execFile)('bash', ['--norc', '-c', piped, ...command], { env })
}

/** What a terminal shows when somebody answers the questions one after the other. */
const typeInTerminal = (url: string, answers: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    const command = `${process.execPath} ${ENTRY} token --url ${url}`
    const child = spawn('script', ['-qec', command, '/dev/null'], { env: { PATH: process.env.PATH, SHELL: '/bin/sh' } })
    let shown = ''
    let answered = 0
    child.stdout.on('data', chunk => {
      shown += chunk
      const questions = shown.match(/(?:Username|Password): /g)?.length ?? 0
      if (questions > answered) child.stdin.write(answers[answered++] ?? '')
    })
    child.on('error', reject)
    child.on('close', () => resolve(shown))
  })
