// Gives a person of the lab a session and an access token for programs that know passwords only, and waits for the end of tokens.
import { ok } from 'node:assert/strict'
import type { World } from '../../test/support/gateway.ts'
import { jsonRequest } from '../../test/support/login.ts'
import { actor, openStore, person } from '../../test/support/store.ts'
import type { Teardown } from '../teardown.ts'

/** The `session` cookie and a `token` (pt_…) of an Admin in the gateway's database. */
export const logIn = async (lab: Teardown, world: World) => {
  const { url } = world.postgres
  const { users } = await openStore(lab, { url, newDatabase: async () => url }, url)
  const { user } = await users.syncPerson(person('maria'))
  const { version } = await users.setAccess(actor, user.id, { profiles: ['Admin'], areas: [], areaPrincipal: null })
  const claims = { auth_time: Math.floor(Date.now() / 1000), ver: version }
  const access = { perfis: ['Admin'], profiles: ['Admin'], areas: [], areaPrincipal: '' }
  const session = await world.tokenFor({ ...user, ...access }, claims)
  const body = { name: 'lab', profiles: ['Admin'], expiresAt: new Date(Date.now() + 86_400_000).toISOString() }
  const answer = await world.fetch('/auth/tokens', jsonRequest('POST', session, body))
  if (answer.status !== 201) throw new Error(`/auth/tokens: ${answer.status} ${await answer.text()}`)
  return { session, token: ((await answer.json()) as { token: string }).token }
}

export const statusOf = async (world: World, token: string): Promise<number> =>
  (await world.fetch('/auth/me', { token })).status

/** How long until the token ends, ms. */
export const untilEnded = async (world: World, token: string, limitMs = 5000): Promise<number> => {
  const startedAt = performance.now()
  while ((await statusOf(world, token)) === 200)
    ok(performance.now() - startedAt < limitMs, `the token still works after ${limitMs} ms`)
  return Math.round(performance.now() - startedAt)
}
