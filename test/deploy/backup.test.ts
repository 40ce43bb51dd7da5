// docs/operate.md: a dump is restored into another Postgres, the audit log is whole, and what had ended stays ended.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { findPostgresBin } from '../support/provision.ts'
import { actor, openStore, person } from '../support/store.ts'

const ROOT = join(import.meta.dirname, '../..')
const page = readFileSync(join(ROOT, 'docs/operate.md'), 'utf8')
const [dump = '', restore = '', verify = ''] =
  /## Backup and restore[\s\S]*?```sh\n([\s\S]*?)\n```/.exec(page)?.[1]?.split('\n') ?? []

t.test('the commands of docs/operate.md: dump, restore into a new server, verify, start', async t => {
  const folder = t.testdir()
  const file = join(folder, 'portaria.dump')
  // The command of an installation, as this checkout runs it.
  writeFileSync(join(folder, 'portaria'), `#!/bin/sh\nexec node -- '${ROOT}/gateway/cli/portaria.ts' "$@"\n`, {
    mode: 0o755
  })
  const path = [folder, findPostgresBin(), join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter)
  const run = (line: string, env: Record<string, string>) =>
    promisify(execFile)('sh', ['-euc', line.replace('portaria.dump', file)], {
      cwd: ROOT,
      env: { ...process.env, ...env, PATH: path }
    })

  const before = await startOwnPostgres(t)
  const { url, users, tokenState, database } = await openStore(t, before)
  const { user: maria } = await users.syncPerson(person('maria'))
  await users.createArea(actor, 'Geral')
  await users.setAccess(actor, maria.id, { profiles: ['Admin'], areas: ['Geral'], areaPrincipal: 'Geral' })
  const { user: ana } = await users.syncPerson(person('ana'))
  await users.revokePerson(actor, ana.id)
  await tokenState.revokeToken('ended', Math.floor(Date.now() / 1000) + 3600)
  await database.close()

  await run(dump, { DATABASE_URL: url })
  await before.stop()
  // Another server counts its transactions from the beginning: nothing may depend on the numbers of the old one.
  const after = await startOwnPostgres(t)
  const restored = await after.newDatabase()
  await run(restore, { NEW_DATABASE_URL: restored })
  t.match(
    (await run(verify, { NEW_DATABASE_URL: restored, JWT_SECRET: TEST_SECRET })).stdout,
    /The audit log is whole: \d+ entries/
  )

  const world = await startGateway(t, { postgres: { url: restored } })
  const me = async (id: number, claims: Record<string, unknown>) => {
    const token = await world.tokenFor({ id, profiles: ['Admin'], areas: ['Geral'] }, claims)
    return (await world.fetch('/auth/me', { token })).status
  }
  t.equal(await me(maria.id, { ver: 1 }), 200)
  t.equal(await me(maria.id, { ver: 1, jti: 'ended' }), 401, 'a token that was logged out')
  t.equal(await me(ana.id, { ver: 0 }), 401, 'a person whose tokens were revoked')

  const admin = await world.tokenFor({ id: maria.id, profiles: ['Admin'], areas: ['Geral'] }, { ver: 1 })
  const answer = await world.fetch(`/auth/admin/users/${ana.id}/disable`, { method: 'POST', token: admin })
  t.equal(answer.status, 204)
  t.equal(await me(ana.id, { ver: 1 }), 401, 'changes are felt as ever')
  t.match((await run(verify, { NEW_DATABASE_URL: restored, JWT_SECRET: TEST_SECRET })).stdout, /The audit log is whole/)
})
