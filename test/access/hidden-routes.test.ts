// Without a token, nothing tells private paths that exist from others.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

// RV-28, RT-35
t.test('a path that lax backends read as another route looks private to those without a token', async t => {
  const upstream = await startRawUpstream(t)
  const world = await startGateway(t, {
    config: {
      upstreams: { up: { url: `http://127.0.0.1:${upstream.port}` } },
      routes: [
        { path: '/api/*', upstream: 'up' },
        { path: '/api/secret-project/*', upstream: 'up', roles: ['Admin'] },
        { path: '/open/*', upstream: 'up', public: true },
        { path: '/open/secret-project/*', upstream: 'up', roles: ['Admin'] }
      ]
    }
  })
  const ask = async (path: string, token?: string) => {
    const response = await world.fetch(path, { token })
    const { requestId, ...body } = (await response.json()) as Record<string, unknown>
    const headers = Object.fromEntries(response.headers)
    for (const name of ['date', 'x-request-id', 'x-ratelimit-remaining', 'x-ratelimit-reset']) delete headers[name]
    return { status: response.status, body, headers }
  }
  const [existing, missing] = [await ask('/api/SECRET-PROJECT/x'), await ask('/api/NO-SUCH-THING/x')]
  t.equal(existing.status, 401)
  t.same(existing, missing)
  t.match(await ask('/api/SECRET-PROJECT/x', await world.tokenFor()), { status: 400, body: { code: 'GW_BAD_PATH' } })
  t.match(await ask('/open/SECRET-PROJECT/x'), { status: 400, body: { code: 'GW_BAD_PATH' } })
})
