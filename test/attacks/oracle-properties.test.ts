// Compares random paths and fields with the rules, written down a second time.
import t from 'tap'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { startGateway } from '../support/gateway.ts'
import { identityFields, isAlive, routeFault } from '../support/oracles.ts'
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
const between = fc.constantFrom('-', '_', '.', '~', '!', '|', '*', "'", '`', '^')
const name = fc
  .tuple(
    fc.constantFrom('x', 'X'),
    between,
    fc.constantFrom('user', 'USER', 'uSeR'),
    between,
    fc.constantFrom('id', 'Profiles', 'area', 'new')
  )
  .map(parts => parts.join(''))

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

t.test('whatever fields are sent, the identity that arrives is the one that was verified', async t => {
  // HD-01, HD-02, HD-04, HD-05
  await fc.assert(
    fc.asyncProperty(fc.array(name, { maxLength: 6 }), fc.boolean(), fc.boolean(), async (names, isPublic, isNamed) => {
      const before = raw.requests.length
      const forged = names.map(forgedName => `${forgedName}: Admin\r\n`).join('')
      const connection = isNamed && names.length > 0 ? `Connection: ${names.join(', ')}, x-user-id\r\n` : ''
      await world.raw(
        `GET /${isPublic ? 'o' : 'a'}/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\n${forged}${connection}\r\n`
      )
      const request = raw.requests[before]
      if (request === undefined) throw new Error('did not arrive')
      const fields = identityFields(request)
      const text = JSON.stringify(fields)
      if (isPublic ? text !== '{}' : fields['x-user-id']?.join() !== '7' || /Admin/.test(text)) throw new Error(text)
      if (Object.values(fields).some(values => values.length !== 1)) throw new Error(`twice: ${text}`)
    }),
    { numRuns: 800 }
  )
  t.pass('800 sets of fields')
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
