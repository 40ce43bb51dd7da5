// Checks which host a backend receives.
import t from 'tap'
import { startGateway, type World } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const raw = await startRawUpstream(t)
const postgres = await startPostgres(t)
const config = {
  upstreams: { raw: { url: raw.url }, kept: { url: raw.url, preserveHost: true } },
  routes: [
    { path: '/x', upstream: 'raw', public: true },
    { path: '/kept', upstream: 'kept', public: true }
  ]
}
const PUBLIC = { PUBLIC_URL: 'https://app.example.org' }
const authority = `127.0.0.1:${raw.port}`

/** `[host, x-forwarded-host, …]` as the backend received them. */
const told = async (world: World, path: string, host: string, more = ''): Promise<string[]> => {
  const before = raw.requests.length
  await world.raw(`GET ${path} HTTP/1.1\r\n${host === '' ? '' : `Host: ${host}\r\n`}${more}\r\n`)
  const headers = raw.requests[before]?.headers ?? []
  const values = (name: string) => headers.filter(([one]) => one.toLowerCase() === name).map(([, value]) => value)
  return [...values('host'), ...values('x-forwarded-host')]
}

const OWN = 'app.example.org'
const INTRA = 'intra.example:8443'

t.test('a backend receives its own host or, with preserveHost, the one asked for if it is ours', async t => {
  // HD-09, HD-10; in every spelling, and behind proxies: test/fuzz/readings.test.ts
  const world = await startGateway(t, { postgres, config, env: { ...PUBLIC, ALLOWED_HOSTS: 'Intra.example:8443' } })
  t.same(await told(world, '/x', 'APP.example.org'), [authority, 'APP.example.org'])
  t.same(await told(world, '/kept', INTRA, 'X-Forwarded-Host: evil.example\r\n'), [INTRA, INTRA])
  t.same(await told(world, '/x', 'evil.example'), [authority, OWN])
  t.same(await told(world, '/kept', 'evil.example'), [OWN, OWN])
})

t.test('while PUBLIC_URL is unset, or with *, any well-formed host is passed on', async t => {
  const world = await startGateway(t, {
    postgres,
    config: { ...config, routes: config.routes.slice(0, 1), upstreams: { raw: { url: raw.url } } }
  })
  t.same(await told(world, '/x', 'anything.example:81'), [authority, 'anything.example:81'])
  await t.rejects(startGateway(t, { postgres, config }), /"preserveHost" of the upstream "kept" needs PUBLIC_URL/)
  const env = { ...PUBLIC, ALLOWED_HOSTS: '*', TRUST_PROXY: '127.0.0.1' }
  const any = await startGateway(t, { postgres, config, env })
  t.same(await told(any, '/kept', 'anything.example:81'), ['anything.example:81', 'anything.example:81'])
  t.same(await told(any, '/kept', 'a', 'X-Forwarded-Host: b, c\r\n'), ['app.example.org', 'app.example.org'])
})
