// Without DATABASE_URL the same store stands on a Postgres inside the process, in a folder that one gateway owns.
import { type ChildProcess, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { listenAccessChanges } from '../../gateway/store/access-changes.ts'
import { createAuditLog } from '../../gateway/store/audit-log.ts'
import { openDatabase } from '../../gateway/store/database.ts'
import { lockDataDir } from '../../gateway/store/embedded-postgres.ts'
import { createTokenState } from '../../gateway/store/token-state.ts'
import { createUsers } from '../../gateway/store/users.ts'
import type { AccessChange } from '../../gateway/tokens/revocations.ts'
import { fillDataDir } from '../support/embedded-template.ts'
import { baseEnv, routeFile, spawnGateway } from '../support/gateway-process.ts'
import { only } from '../support/only.ts'
import { quiet } from '../support/quiet.ts'
import { makeFolder } from '../support/server-process.ts'

const home = makeFolder(t, 'embedded')
const dataDir = join(home, 'data')
await fillDataDir(dataDir)
const actor = { id: null, username: 'test' }
const maria = { provider: 'ldap', issuer: 'corp', subject: 'm', name: 'Maria', email: '', username: 'maria' } as const

const open = async (test: Test, folder = dataDir) => {
  const database = await openDatabase({ dataDir: folder, log: quiet })
  test.teardown(() => database.close())
  const parts = { users: createUsers(database), audit: createAuditLog(database) }
  return { database, ...parts, tokenState: createTokenState(database) }
}

/** Another process on the folder; `line()` is what it says next. */
const another = (test: Test, role: string, task: string, folder = dataDir) => {
  const program = new URL('../support/embedded-owner.ts', import.meta.url).pathname
  const child: ChildProcess = spawn(process.execPath, [...process.execArgv, program, folder, role, task], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const exited = once(child, 'exit')
  test.teardown(() => child.kill('SIGKILL'))
  if (child.stdout === null) throw new Error('no stdout')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return { child, exited, line: async () => String((await lines.next()).value) }
}

t.test('people, access and audit work as on a Postgres server', async t => {
  const { database, users, audit } = await open(t)
  t.ok(database.embedded)
  t.equal(statSync(dataDir).mode & 0o777, 0o700)
  t.equal(statSync(join(dataDir, '.s.PGSQL.5432')).mode & 0o077, 0)
  const bootstrapAdmins = [{ provider: 'ldap', subject: 'maria' }] as const
  const logins = []
  // In waves: more at once wait for a connection for longer than they may where ten other things run.
  for (let wave = 0; wave < 10; wave++) {
    const ten = Array.from({ length: 10 }, () => users.syncPerson({ ...maria, bootstrapAdmins }))
    logins.push(...(await Promise.all(ten)))
  }
  t.equal(new Set(logins.map(login => login.user.id)).size, 1)
  t.equal(logins.filter(login => login.firstLogin).length, 1)
  const id = logins[0]?.user.id ?? 0
  t.match(await users.loadPerson(id), { user: { profiles: only('Admin'), areas: only('Geral') } })
  await t.rejects(users.disablePerson(actor, id), { code: 'GW_LAST_ADMIN' })
  const append = (n: number) => audit.append({ actor, action: 'x', before: { long: 'é'.repeat(n * 400) } })
  for (let wave = 0; wave < 5; wave++) await Promise.all(Array.from({ length: 10 }, (_, n) => append(10 * wave + n)))
  t.same(await audit.verify(), { ok: true, entries: 51 })
  t.match(await users.listPeople({ search: 'MAR' }), { total: 1, items: [{ username: 'maria' }] })
})

t.test('a command joins the database of a running gateway, which hears at once what it changed', async t => {
  const { database, tokenState } = await open(t)
  const events = new EventEmitter()
  const onChange = (change: AccessChange) => events.emit('change', change)
  const onRestored = () => events.emit('restored')
  const listener = listenAccessChanges(database, { onChange, onRestored, log: quiet })
  t.teardown(() => listener.close())
  await once(events, 'restored')
  const changed = once(events, 'change')
  const command = another(t, 'command', 'revoke')
  t.same(await changed, [{ kind: 'person', userId: 1, version: 1, lowestAccepted: 1 }])
  t.same((await command.exited)[0], 0)
  const heard = once(events, 'change')
  await tokenState.revokeToken('jti-1', 4_000_000_000)
  t.match(await heard, [{ kind: 'token', jti: 'jti-1' }])
  t.match(await tokenState.loadRevocations(), { tokens: [{ jti: 'jti-1' }], versions: [{ userId: 1, version: 1 }] })
})

// RV-81
t.test('a second gateway on the folder is refused, in any process, also once the lock file was removed', async t => {
  const { database } = await open(t)
  for (const remove of [() => undefined, () => rmSync(join(dataDir, 'portaria.lock'))]) {
    remove()
    const message = /another gateway already runs on the data directory/
    await t.rejects(openDatabase({ dataDir, log: quiet }), { message })
    const second = another(t, 'gateway', 'hold')
    t.match(await second.line(), /^refused: another gateway already runs on the data directory/)
    t.same((await second.exited)[0], 1)
    t.ok(await database.ping())
  }
})

t.test('closing leaves neither socket nor lock, and a command can then run alone', async t => {
  t.same(readdirSync(dataDir), ['postgres'])
  const command = another(t, 'command', 'revoke')
  t.same((await command.exited)[0], 0)
  t.same(readdirSync(dataDir), ['postgres'])
})

if (process.geteuid?.() === 0)
  t.test('a gateway opens its data again after root has run a command on it', async t => {
    const files = () =>
      ['', ...readdirSync(dataDir, { recursive: true, encoding: 'utf8' })].map(name => join(dataDir, name))
    for (const file of files()) chownSync(file, 65_534, 65_534)
    const elsewhere = makeFolder(t, 'elsewhere')
    writeFileSync(join(elsewhere, 'of-root'), '')
    symlinkSync(elsewhere, join(dataDir, 'postgres', 'link'))
    writeFileSync(join(dataDir, 'backup-of-root'), '')
    await (await openDatabase({ dataDir, log: quiet, role: 'command' })).close()
    t.equal(statSync(join(elsewhere, 'of-root')).uid, 0, 'what a link leads to stays as it is')
    rmSync(join(dataDir, 'postgres', 'link'))
    t.equal(statSync(join(dataDir, 'backup-of-root')).uid, 0, 'so does what is beside the database')
    rmSync(join(dataDir, 'backup-of-root'))
    t.same(
      files().filter(file => statSync(file).uid === 0),
      []
    )
    for (const file of files()) chownSync(file, 0, 0)
  })

// DF-19
t.test('what a killed gateway left behind is taken over, and nothing that it confirmed is lost', async t => {
  for (let round = 0; round < 3; round++) {
    const gateway = another(t, 'gateway', 'write')
    t.equal(await gateway.line(), 'open')
    let last = -1
    for (let n = 0; n < 20 + round * 7; n++) last = Number((await gateway.line()).replace('stored ', ''))
    gateway.child.kill('SIGKILL')
    await gateway.exited
    t.ok(existsSync(join(dataDir, 'portaria.lock')))
    const { database, users, audit } = await open(t)
    t.ok((await users.listPeople()).total >= last + 2, 'the writer’s people and Maria')
    t.match(await audit.verify(), { ok: true })
    await database.close()
  }
})

t.test('a folder whose path is too long for a socket works as well, and keeps the rights that it had', async t => {
  const folder = join(home, 'x'.repeat(60), 'y'.repeat(60))
  mkdirSync(folder, { recursive: true })
  await fillDataDir(folder)
  chmodSync(folder, 0o755)
  const { database } = await open(t, folder)
  t.ok(await database.ping())
  const modes = ['.', 'postgres'].map(name => statSync(join(folder, name)).mode & 0o777)
  t.same(modes, [0o755, 0o700], 'but what is in it is for the gateway alone')
  await database.close()
  t.same(readdirSync(folder), ['postgres'])
})

// RV-121
t.test('a lock that belongs to another user is named, also one that may be read', async t => {
  const folder = t.testdir({ 'portaria.lock': '' })
  const path = join(folder, 'portaria.lock')
  const message = new RegExp(`^the lock ${path} in DATA_DIR cannot be used \\(user \\d+ may not write it\\)`)
  const isRoot = process.geteuid?.() === 0
  chmodSync(folder, 0o777)
  for (const mode of [0o000, 0o444]) {
    chmodSync(path, mode)
    if (isRoot) process.seteuid?.(65534)
    t.throws(() => lockDataDir(folder), { message })
    if (isRoot) process.seteuid?.(0)
  }
})

// RV-121
t.test('a data directory that cannot be written is named, with its path, the reason and what to do', async t => {
  const folder = t.testdir({ closed: {}, file: '' })
  chmodSync(join(folder, 'closed'), 0o500)
  const uid = process.geteuid?.()
  // A superuser may write anywhere.
  if (uid === 0) process.seteuid?.(65534)
  // In /proc no folder can be made, although it exists and is writable.
  const opening = [join(folder, 'closed'), join(folder, 'file/data'), '/proc/data'].map(dataDir =>
    openDatabase({ dataDir, log: quiet }).catch((error: Error) => error.message)
  )
  const messages = await Promise.all(opening).finally(() => uid === 0 && process.seteuid?.(0))
  const advice = /; name a directory that this user may write, or set DATABASE_URL$/
  for (const message of messages) t.match(message, advice)
  t.match(messages[0], `DATA_DIR ${join(folder, 'closed')} cannot be used (EACCES: user `)
  t.match(messages[1], `DATA_DIR ${join(folder, 'file/data')} cannot be used (`)
  t.match(messages[2], 'DATA_DIR /proc/data cannot be used (ENOENT)')
})

const LOW_MEMORY =
  'the memory limit of this process is too low for the embedded Postgres, so the system may kill it; raise the limit or set DATABASE_URL'

// RV-117, RV-76
t.test('a first start stays within the memory that the docs name, and says what may become of the data', async t => {
  const { folder } = routeFile(t, { routes: [] })
  const gateway = spawnGateway(t, {
    ...baseEnv(folder),
    PORT: '0',
    DATA_DIR: join(mkdtempSync(join(home, 'fresh-')), 'data'),
    NODE_OPTIONS: '--import=data:text/javascript,process.constrainedMemory=()=>2**28'
  })
  const warning = await gateway.logged(LOW_MEMORY)
  t.match(warning, { limitMb: 256, neededMb: 1024 })
  await gateway.logged('listening')
  const said = gateway.lines().flatMap(({ msg }) => (msg.includes('DATABASE_URL') ? [msg] : []))
  t.same(said.sort(), [
    'DATABASE_URL is not set: data is kept in an embedded Postgres, all of which a power cut may destroy',
    LOW_MEMORY
  ])
  const [, peak] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8')) ?? []
  t.comment(`peak ${Math.round(Number(peak) / 1024)} MB`)
  t.ok(Number(peak) / 1024 < 1024)
})
