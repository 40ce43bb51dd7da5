// A session is renewed while it is used, never beyond SESSION_MAX; a cookie whose access has changed goes on without a click.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { signToken, TEST_SECRET } from '../support/gateway.ts'
import { claimsOf, jsonRequest, logIn } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const ldap = await startOpenLdap(t)

const HOUR = 3600
const NAVIGATION = 'Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n'

const start = async (test: Parameters<typeof startRawUpstream>[0], env: Record<string, string> = {}) => {
  const upstream = await startRawUpstream(test)
  const world = await startPagesWorld(test, {
    ldap,
    postgres,
    env: { BROWSER_SESSION: 'true', JWT_EXPIRES_IN: '1h', SESSION_MAX: '8h', ...env },
    config: {
      upstreams: { app: { url: upstream.url } },
      routes: [
        { path: '/app/*', upstream: 'app', browser: true },
        { path: '/auditors/*', upstream: 'app', browser: true, roles: ['Supervisor'] }
      ]
    }
  })
  return { ...world, upstream }
}
type Started = Awaited<ReturnType<typeof start>>

const world = await start(t)
const withoutMax = await start(t, { SESSION_MAX: '' })

const nowS = () => Math.floor(Date.now() / 1000)

/** A login, and copies of its token as they would be if it had begun earlier. */
const login = async (at: Started, username = 'maria') => {
  const { token, user } = await logIn(at, username)
  const aged = (claims: Record<string, unknown>) => signToken(TEST_SECRET, {}, { ...claimsOf(token), ...claims })
  return { token, user, aged }
}
const refresh = (world: Started, token: string) => world.fetch('/auth/refresh', { method: 'POST', token })

/** Seconds for which the end of a login is remembered. */
const revocationLeft = async (world: Started, token: string): Promise<number> => {
  const [row] = await postgres.query(
    'SELECT extract(epoch FROM expires_at - now())::float8 AS left FROM revocations WHERE jti = $1',
    [claimsOf(token).jti],
    world.postgres.url
  )
  return Number(row?.left)
}

const expOf = async (answer: Response): Promise<number> =>
  claimsOf(((await answer.json()) as { token: string }).token).exp - nowS()

t.test('a refresh gives a whole life again, up to the end of the session', async t => {
  const { aged } = await login(world)
  const at = async (loggedInS: number, leftS: number) =>
    refresh(world, await aged({ auth_time: nowS() - loggedInS, iat: nowS() + leftS - HOUR, exp: nowS() + leftS }))
  const near = (seconds: number, expected: number) =>
    t.ok(Math.abs(seconds - expected) < 30, `${seconds} s, not ${expected}`)
  near(await expOf(await at(2 * HOUR, 10)), HOUR)
  near(await expOf(await at(7.5 * HOUR, 10)), HOUR / 2)
  const over = await at(8 * HOUR + 1, 10)
  t.match({ status: over.status, body: await over.json() }, { status: 401, body: { code: 'GW_TOKEN_EXPIRED' } })
  // A token without auth_time counts from its own issue, and a renewal does not move that.
  const old = await refresh(world, await aged({ auth_time: undefined, iat: nowS() - 1800, exp: nowS() + 1800 }))
  t.ok(claimsOf(((await old.json()) as { token: string }).token).auth_time <= nowS() - 1800)
})

t.test('without SESSION_MAX a refresh keeps the end of the token', async t => {
  const world = withoutMax
  const { aged } = await login(world)
  const left = await expOf(await refresh(world, await aged({ iat: nowS() - 3000, exp: nowS() + 600 })))
  t.ok(left <= 600 && left > 570, `${left}`)
  const me = await world.fetch('/auth/me', { token: await aged({ iat: nowS() - 3000, exp: nowS() + 600 }) })
  t.equal(me.headers.get('portaria-session-renews'), null)
})

t.test('what ends a login ends its renewed tokens, for as long as they could live, wherever it was ended', async t => {
  const logout = (at: Started) => (token: string) => at.fetch('/auth/logout', { method: 'POST', token })
  for (const [how, end, leastLeftS, seenBy] of [
    ['a logout with the old copy', logout(world), 7.9 * HOUR, world],
    ['a logout at an instance without SESSION_MAX', logout(withoutMax), 3500, withoutMax],
    [
      'the list of sessions',
      async () => world.fetch('/auth/sessions', { method: 'DELETE', token: (await login(world)).token }),
      3500,
      world
    ]
  ] as const) {
    const { aged } = await login(world)
    const old = await aged({ iat: nowS() - 3000, exp: nowS() + 600 })
    const { token } = (await (await refresh(world, old)).json()) as { token: string }
    t.equal((await end(old)).status, 204, how)
    for (const instance of [world, withoutMax])
      await until(
        async () => (await instance.fetch('/auth/me', { token })).status === 401,
        `${how}: refused everywhere`
      )
    const left = await revocationLeft(seenBy, token)
    t.ok(left > leastLeftS, `${how}: ${left}`)
    t.equal((await refresh(world, token)).status, 401, how)
  }
})

t.test('an open stream goes on with the session that has been renewed, and ends with it', async t => {
  const { aged } = await login(world)
  // Logins of their own: the sessions of these two end with their tokens.
  const soon = () => aged({ jti: randomUUID(), iat: nowS() - HOUR + 3, exp: nowS() + 3 })
  const [old, left] = [await soon(), await soon()]
  world.upstream.respond(() => 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n')
  t.teardown(() => world.upstream.respond(() => OK))
  const open = async (token: string) => {
    const response = await world.fetch('/app/events', { token })
    const state = { isOpen: true }
    void response.text().then(
      () => (state.isOpen = false),
      () => (state.isOpen = false)
    )
    return state
  }
  const [kept, dropped] = [await open(old), await open(left)]
  const { token } = (await (await refresh(world, old)).json()) as { token: string }
  await until(() => !dropped.isOpen, 'the stream that was not renewed has ended')
  t.equal((await world.fetch('/auth/me', { token: old })).status, 401, 'its token has expired')
  t.ok(kept.isOpen)
  t.equal((await world.fetch('/auth/logout', { method: 'POST', token })).status, 204)
  await until(() => !kept.isOpen, 'logged out')
})

t.test('a cookie is renewed at half of its life by whatever uses it', async t => {
  const { token, aged } = await login(world)
  const ask = (cookie: string, fields = 'Accept: */*\r\n') =>
    world.raw(`GET /app/x HTTP/1.1\r\nHost: gw\r\nCookie: portaria_session=${cookie}\r\n${fields}\r\n`)
  for (let i = 0; i < 3; i++) t.equal((await ask(token)).headers['set-cookie'], undefined, 'before half of it')
  const old = await aged({ auth_time: nowS() - 1900, iat: nowS() - 1900, exp: nowS() + 1700 })
  let answer = await ask(old)
  await until(async () => {
    answer = await ask(old)
    return answer.headers['set-cookie'] !== undefined
  })
  t.equal(answer.status, 200)
  const [, renewed = ''] =
    /portaria_session=(eyJ[^;]+); Path=\/; HttpOnly/.exec(String(answer.headers['set-cookie'])) ?? []
  t.match(claimsOf(renewed), { jti: claimsOf(token).jti, auth_time: claimsOf(old).auth_time })
  t.ok(claimsOf(renewed).exp > nowS() + 3500)
  t.equal((await ask(renewed)).headers['set-cookie'], undefined)
  const byHeader = await world.raw(
    `GET /app/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${old}\r\nCookie: portaria_session=${old}\r\n\r\n`
  )
  t.equal(byHeader.headers['set-cookie'], undefined, 'Authorization is what counts')
})

// RV-112
t.test('a navigation by a cookie whose access has changed goes on with the new access, without a click', async t => {
  const admin = await login(world)
  const { token, user } = await login(world, 'carlos')
  const ask = (path: string, fields: string) =>
    world.raw(`GET ${path} HTTP/1.1\r\nHost: gw\r\nCookie: portaria_session=${token}\r\n${fields}\r\n`)
  t.equal((await ask('/auditors/x', NAVIGATION)).status, 403)
  const access = { profiles: ['Supervisor'], areas: ['Geral'], areaPrincipal: 'Geral' }
  const change = await world.fetch(`/auth/admin/users/${user.id}/access`, jsonRequest('PUT', admin.token, access))
  t.equal(change.status, 200, await change.text())
  const script = await ask('/auditors/x', 'Accept: */*\r\n')
  t.match(script, { status: 401, body: /GW_TOKEN_STALE/ })
  const page = await ask('/auditors/x', NAVIGATION)
  t.equal(page.status, 200)
  t.match(String(page.headers['set-cookie']), /^portaria_session=eyJ/)
  t.match(Object.fromEntries(world.upstream.requests.at(-1)?.headers ?? []), { 'x-user-profiles': 'Supervisor' })
  await world.fetch(`/auth/admin/users/${user.id}/revoke`, { method: 'POST', token: admin.token })
  t.equal((await ask('/auditors/x', NAVIGATION)).status, 302, 'a revoked one is not renewed')
})
