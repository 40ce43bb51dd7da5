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

t.test('a backend receives no host that is not this gateway’s', async t => {
  const world = await startGateway(t, { postgres, config, env: { ...PUBLIC, ALLOWED_HOSTS: 'Intra.example:8443' } })
  t.same(await told(world, '/x', 'app.example.org'), [authority, 'app.example.org'])
  t.same(await told(world, '/x', 'APP.example.org'), [authority, 'APP.example.org'])
  t.same(await told(world, '/x', 'intra.EXAMPLE:8443'), [authority, 'intra.EXAMPLE:8443'])
  for (const host of ['evil.example', 'intra.example', 'app.example.org:8443', 'app.example.org.evil.example']) {
    t.same(await told(world, '/x', host), [authority, 'app.example.org'], host)
    t.same(await told(world, '/kept', host), ['app.example.org', 'app.example.org'], host)
  }
  t.same(await told(world, '/kept', 'intra.example:8443'), ['intra.example:8443', 'intra.example:8443'])
  t.same(await told(world, '/x', 'app.example.org', 'X-Forwarded-Host: evil.example\r\n'), [
    authority,
    'app.example.org'
  ])
})

t.test('a trusted proxy’s X-Forwarded-Host is checked in the same way, and one value is sent', async t => {
  // HD-09, HD-10
  const env = { ...PUBLIC, ALLOWED_HOSTS: 'intra.example', TRUST_PROXY: '127.0.0.1' }
  const world = await startGateway(t, { postgres, config, env })
  const behind = (value: string) => told(world, '/kept', 'proxy.internal', `X-Forwarded-Host: ${value}\r\n`)
  t.same(await behind('intra.example'), ['intra.example', 'intra.example'])
  t.same(await behind('evil.example'), ['app.example.org', 'app.example.org'])
  t.same(await behind('intra.example, evil.example'), ['app.example.org', 'app.example.org'])
  t.same(await behind('intra.example\r\nX-Forwarded-Host: evil.example'), ['app.example.org', 'app.example.org'])
  t.same(await told(world, '/kept', 'intra.example'), ['intra.example', 'intra.example'])
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
