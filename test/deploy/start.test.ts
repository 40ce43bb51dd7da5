// How the process is started: through npm a signal still drains it.
// RW-29
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createUsers } from '../../gateway/store/users.ts'
import { signToken, startGateway, type World } from '../support/gateway.ts'
import { baseEnv, routeFile } from '../support/gateway-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

t.test('SIGTERM to `npm start` drains the gateway and ends it', async t => {
  const postgres = await startPostgres(t)
  const { folder } = routeFile(t, { routes: [] })
  const npm = spawn('npm', ['start', '--silent'], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...baseEnv(folder), PORT: '0', DATABASE_URL: postgres.url },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true
  })
  t.teardown(() => {
    try {
      process.kill(-(npm.pid ?? 0), 'SIGKILL')
    } catch {
      // It has ended, as it should.
    }
  })
  let printed = ''
  npm.stdout.on('data', chunk => {
    printed += chunk
  })
  await until(() => printed.includes('"listening"'))
  const gatewayPid = Number(/"pid":(\d+)/.exec(printed)?.[1])
  const ended = once(npm, 'exit')
  npm.kill('SIGTERM')
  await ended
  await until(() => !existsSync(`/proc/${gatewayPid}`), 'the gateway has ended')
  t.match(printed, /"msg":"stopping"/)
  t.match(printed, /"msg":"stopped"/)
})

const OLD = 'the secret of all instances before and forty bytes and more'
const NEW = 'the secret that shall take its place and forty bytes and more'

const postgres = await startPostgres(t)
const { url, database } = await openStore(t, postgres)
const { user } = await createUsers(database).syncPerson(person('maria'))

const start = (JWT_SECRET: string, ...previous: string[]) =>
  startGateway(t, { postgres: { url }, env: { JWT_SECRET, JWT_PREVIOUS_SECRETS: previous.join() } })

const statusAt = async (world: World, token: string) => (await world.fetch('/auth/me', { token })).status

/** A copy of a token as this instance signs it now. */
const signedBy = async (world: World, token: string): Promise<string> => {
  const answer = await world.fetch('/auth/refresh', { method: 'POST', token })
  return ((await answer.json()) as { token: string }).token
}

t.test('add the new secret everywhere, swap, drop the old one: every token is valid on every instance', async t => {
  const first = await signToken(OLD, { id: user.id, username: 'maria' })
  const instances = [await start(OLD), await start(OLD)]
  const steps: readonly (readonly string[])[] = [
    [OLD, NEW],
    [NEW, OLD]
  ]
  const tokens = [first]
  const checkAll = async (step: string) => {
    for (const world of instances) tokens.push(await signedBy(world, first))
    for (const [i, world] of instances.entries()) {
      for (const token of new Set(tokens)) t.equal(await statusAt(world, token), 200, `${step}, instance ${i}`)
    }
  }
  for (const [n, [secret = '', ...previous]] of steps.entries()) {
    for (const i of instances.keys()) {
      // One after the other, as a rolling restart does: in between they differ.
      const next = await start(secret, ...previous)
      await instances[i]?.gateway.close()
      instances[i] = next
      await checkAll(`step ${n + 1}`)
    }
  }
  const signedNew = await signedBy(instances[0] as World, first)
  const last = await start(NEW)
  t.equal(await statusAt(last, signedNew), 200, 'after JWT_EXPIRES_IN only such tokens are left')
  t.equal(await statusAt(last, first), 401, 'the old secret is worth nothing any more')
})
