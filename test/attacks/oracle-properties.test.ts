// Compares random paths with the rules, written down a second time.
import t from 'tap'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { startGateway } from '../support/gateway.ts'
import { isAlive, routeFault } from '../support/oracles.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { fc } from '../support/worlds.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  env: { LOG_LEVEL: 'error' },
  config: {
    upstreams: { raw: { url: raw.url } },
    routes: [
      { path: '/a/*', upstream: 'raw', roles: ['Agente'] },
      { path: '/a/b/*', upstream: 'raw', roles: ['Admin'] },
      { path: '/a/b/open', upstream: 'raw', public: true },
      { path: '/a/:id/c', upstream: 'raw', roles: ['Admin'] },
      { path: '/o/*', upstream: 'raw', public: true }
    ]
  }
})
const { table } = await loadRoutes(world.folder, ownRoutes())
const token = await world.tokenFor({ id: 7, profiles: ['Agente'] })

const segment = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('a', 'b', 'c', 'o', 'open', 'x', '7') },
  {
    weight: 3,
    arbitrary: fc.constantFrom('.', '..', '%2e', '%2E%2e', '', '%61', '%62', 'A', 'B', 'b.', 'b%20', 'b;c', '%25')
  },
  { weight: 1, arbitrary: fc.constantFrom('b%2fc', 'b%5cc', '\\b', 'b#', '%00', '%c0%ae', 'b?', '@b', 'b%252f') }
)
const target = fc.array(segment, { minLength: 1, maxLength: 5 }).map(segments => `/${segments.join('/')}`)
t.test('whatever path is asked, it arrives only under the rule that let it pass, in every reading', async t => {
  // RT-23, RT-24, RT-30
  let arrived = 0
  await fc.assert(
    fc.asyncProperty(target, fc.constantFrom('GET', 'POST', 'DELETE'), async (path, method) => {
      const before = raw.requests.length
      const answer = await world.raw(
        `${method} ${path} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\nContent-Length: 0\r\n\r\n`
      )
      if (answer.status >= 500) throw new Error(`status ${answer.status}`)
      for (const request of raw.requests.slice(before)) {
        arrived++
        const allowed = ['/a/*', '/a/b/open', '/o/*']
        if (!allowed.some(id => routeFault(table, id, request) === undefined)) throw new Error(request.target)
      }
    }),
    { numRuns: 1500 }
  )
  t.ok(arrived > 100, `${arrived} arrived`)
  t.equal(await isAlive(world, raw, 4), undefined)
})

t.test('paths that lead nowhere, bad paths and bytes that are not HTTP count like any request', async t => {
  // RL-07
  const limited = await startGateway(t, {
    postgres: world.postgres,
    env: { RATE_LIMIT_MAX: '6', RATE_LIMIT_TTL_MS: '3600000' }
  })
  const tries = [
    'GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /a//b HTTP/1.1\r\nHost: a\r\n\r\n',
    'NONSENSE\r\n\r\n'
  ]
  for (const bytes of [...tries, ...tries]) t.not((await limited.raw(bytes)).status, 429)
  for (const bytes of tries) t.equal((await limited.raw(bytes)).status, 429)
})
