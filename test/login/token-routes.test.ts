// What the endpoints for the bearer of a token answer, and what the API description says of it.
import Fastify, { type RouteOptions } from 'fastify'
import t from 'tap'
import { tokenRoutes } from '../../gateway/login/token-routes.ts'
import { createRenewLogin } from '../../gateway/tokens/renew-login.ts'
import { person } from '../support/routes.ts'

const startApp = async (user: ReturnType<typeof person>, isByCookie?: boolean, known = user, more = {}) => {
  const routes: RouteOptions[] = []
  const app = Fastify()
  app.addHook('onRoute', route => void routes.push(route))
  const identity = { user, version: 0, expiresAt: 9_999_999_999 }
  app.decorateRequest('exchange', {
    getter: () => ({ requestId: 'r', client: { address: '192.0.2.1' }, identity }) as never
  })
  const cookies = { isByCookie: () => isByCookie === true, renew: () => 'a=b', end: () => 'a=' }
  tokenRoutes(app, {
    tokens: { renewsAt: () => Number.POSITIVE_INFINITY },
    renewLogin: createRenewLogin({
      tokens: { reissue: async () => 'renewed', verify: () => ({ ...identity, user: known }) as never },
      loadPerson: async () => ({ user: known, version: 0, lowestAcceptedVersion: 0, disabled: false, ...more }),
      renewSession: async () => true
    }),
    revokeLogin: async () => undefined,
    providerLogoutUrl: async () => 'https://id.example/logout',
    ...(isByCookie === undefined ? {} : { sessionCookies: cookies as never })
  })
  await app.ready()
  return { app, routes }
}

t.test('a logout names the address at the provider to those who came from there and ask for it', async t => {
  const logout = async (provider: 'cloudidp' | 'ldap', accept: string | undefined, body: object) => {
    const { app } = await startApp(person({ provider }))
    const headers = accept === undefined ? {} : { accept }
    const { statusCode, payload } = await app.inject({ method: 'POST', url: '/auth/logout', headers, payload: body })
    return [statusCode, payload]
  }
  const told = [200, JSON.stringify({ logoutUrl: 'https://id.example/logout' })]
  t.same(await logout('cloudidp', 'text/html, application/json;q=0.9', { provider: true }), told)
  t.same(await logout('cloudidp', undefined, { provider: true }), [204, ''])
  t.same(await logout('cloudidp', 'text/html', { provider: true }), [204, ''])
  t.same(await logout('cloudidp', 'application/json', { provider: false }), [204, ''])
  t.same(await logout('ldap', 'application/json', { provider: true }), [204, ''])
})

t.test('a refreshed token is shown unless it came in a cookie that scripts cannot read', async t => {
  for (const [isByCookie, token] of [
    [undefined, 'renewed'],
    [false, 'renewed'],
    [true, '']
  ] as const) {
    const { app } = await startApp(person(), isByCookie)
    const answer = await app.inject({ method: 'POST', url: '/auth/refresh' })
    t.equal((answer.json() as { token: string }).token, token)
    t.equal(answer.headers['set-cookie'], isByCookie === undefined ? undefined : 'a=b')
  }
})

t.test('a token is not renewed for another person who has got the same id', async t => {
  for (const other of [person({ username: 'other' }), person({ provider: 'cloudidp' })]) {
    const { app } = await startApp(person({ provider: 'ldap' }), undefined, other)
    t.equal((await app.inject({ method: 'POST', url: '/auth/refresh' })).statusCode, 401)
  }
})

t.test('a token of a person who is disabled, or whose tokens have ended, is not renewed', async t => {
  for (const more of [{ disabled: true }, { lowestAcceptedVersion: 1 }]) {
    const { app } = await startApp(person(), undefined, person(), more)
    t.equal((await app.inject({ method: 'POST', url: '/auth/refresh' })).statusCode, 401)
  }
})

t.test('the API description has the address that a logout may name', async t => {
  const { routes } = await startApp(person())
  for (const { schema, url } of routes.filter(({ method }) => method !== 'HEAD')) t.type(schema?.summary, 'string', url)
  const logout = routes.find(({ url }) => url === '/auth/logout')
  t.match((logout?.schema?.response as Record<number, unknown> | undefined)?.[200], {
    required: ['logoutUrl'],
    properties: { logoutUrl: { type: 'string', description: /cloud provider/ } }
  })
})
