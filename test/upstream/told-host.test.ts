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

type Row = readonly [what: string, path: string, host: string, said: string, toldHost: string, toldForwarded: string]

const OWN = 'app.example.org'
const INTRA = 'intra.example:8443'
const said = (value: string) => `X-Forwarded-Host: ${value}\r\n`
const NAMED: readonly Row[] = [
  ['the host of PUBLIC_URL', '/x', OWN, '', authority, OWN],
  ['in any case', '/x', 'APP.example.org', '', authority, 'APP.example.org'],
  ['one of ALLOWED_HOSTS', '/x', 'intra.EXAMPLE:8443', '', authority, 'intra.EXAMPLE:8443'],
  ['the same, kept', '/kept', INTRA, '', INTRA, INTRA],
  ['what a client forwards', '/x', OWN, said('evil.example'), authority, OWN],
  ...['evil.example', 'intra.example', `${OWN}:8443`, `${OWN}.evil.example`].flatMap((host): Row[] => [
    ['a host that is not ours', '/x', host, '', authority, OWN],
    ['a host that is not ours, kept', '/kept', host, '', OWN, OWN]
  ])
]
const BEHIND_PROXY: readonly Row[] = [
  ['its host is checked', '/kept', 'proxy.internal', said(INTRA), INTRA, INTRA],
  ['so is an invented one', '/kept', 'proxy.internal', said('evil.example'), OWN, OWN],
  ['a list', '/kept', 'proxy.internal', said(`${INTRA}, evil.example`), OWN, OWN],
  ['two lines', '/kept', 'proxy.internal', said(INTRA) + said('evil.example'), OWN, OWN],
  ['none', '/kept', INTRA, '', INTRA, INTRA]
]

t.test('a backend receives one host, which is this gateway’s, whatever clients or trusted proxies say', async t => {
  // HD-09, HD-10
  const env = { ...PUBLIC, ALLOWED_HOSTS: 'Intra.example:8443' }
  for (const [rows, trust] of [
    [NAMED, {}],
    [BEHIND_PROXY, { TRUST_PROXY: '127.0.0.1' }]
  ] as const) {
    const world = await startGateway(t, { postgres, config, env: { ...env, ...trust } })
    for (const [what, path, host, more, ...expected] of rows)
      t.same(await told(world, path, host, more), expected, `${what}: ${host}`)
  }
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
