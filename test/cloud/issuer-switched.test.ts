// Switching CLOUDIDP_ISSUER on and off again keeps people who they are.
// RW-20, OA-12
import t from 'tap'
import { logInByCloud, readFragment } from '../support/cloud-browser.ts'
import { startFaultyProvider } from '../support/faulty-provider.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'

const TENANT = '72f988bf-86f1-41af-91ab-2d7cd011db47'
const OID = '0f3c7d1e-5a0b-4d2f-9a57-2d1c3b4a5968'
const provider = await startFaultyProvider(t)
const postgres = await startPostgres(t)
const { issuer } = provider
const common = {
  CLOUDIDP_ENABLED: 'true',
  CLOUDIDP_CLIENT_ID: 'portaria',
  CLOUDIDP_CLIENT_SECRET: 'a client secret that nothing may show',
  CLOUDIDP_TENANT_ID: TENANT,
  CLOUDIDP_PROFILE_URL: `${issuer}/userinfo`
}
const off = await startGateway(t, {
  postgres,
  env: { ...common, CLOUDIDP_AUTHORIZATION_URL: `${issuer}/authorize`, CLOUDIDP_TOKEN_URL: `${issuer}/token` }
})
const on = await startGateway(t, { postgres, env: { ...common, CLOUDIDP_ISSUER: issuer } })

const logIn = async (world: World, id: string, claims: Record<string, unknown>): Promise<number> => {
  provider.claims = claims
  provider.profile = { sub: claims.sub, id }
  const done = await logInByCloud(world, provider)
  t.equal(done.status, 302)
  return Number(readFragment(done.headers.get('location') ?? '').user.id)
}

t.test('a link by the id of Graph becomes one by sub when oid and tid of the ID token match, and back', async t => {
  const id = await logIn(off, OID, { sub: 's-1' })
  t.equal(await logIn(on, OID, { sub: 's-1', oid: OID, tid: TENANT.toUpperCase() }), id)
  t.equal(await logIn(on, OID, { sub: 's-1' }), id, 'by sub from now on')
  t.equal(await logIn(off, OID, { sub: 's-1' }), id)
})

t.test('whoever logged in with the issuer first is the same person without it', async t => {
  const id = await logIn(on, 'oid-2', { sub: 's-2', oid: 'oid-2', tid: TENANT })
  t.equal(await logIn(off, 'oid-2', { sub: 's-2' }), id)
})

t.test('without oid and tid an account is somebody new, and the start says how many people that may be', async t => {
  const id = await logIn(off, 'oid-3', { sub: 's-3' })
  t.not(await logIn(on, 'oid-3', { sub: 's-3' }), id)
  const open = { ...common, CLOUDIDP_TENANT_ID: 'common', CLOUDIDP_ISSUER: issuer }
  const late = await startGateway(t, { postgres, env: open })
  t.match(await late.logged(({ reason }) => reason === 'links-without-issuer'), { level: 40, people: 1 })
  const named = await startGateway(t, { postgres, env: { ...open, CLOUDIDP_TENANT_ID: TENANT, LOG_LEVEL: 'info' } })
  t.match(await named.logged(({ reason }) => reason === 'links-without-issuer'), { level: 30, people: 1 })
  const addresses = { CLOUDIDP_AUTHORIZATION_URL: `${issuer}/authorize`, CLOUDIDP_TOKEN_URL: `${issuer}/token` }
  const again = await startGateway(t, { postgres, env: { ...common, ...addresses } })
  t.match(await again.logged(({ reason }) => reason === 'links-unreadable'), { level: 40, people: 1 })
})

t.test('with another issuer accounts are somebody new, and the start says how many people that may be', async t => {
  const start = (CLOUDIDP_ISSUER: string) => startGateway(t, { postgres, env: { ...common, CLOUDIDP_ISSUER } })
  const others = (world: World) => world.log.filter(({ reason }) => reason === 'links-other-issuer')
  // The others have a link by the id of Graph, too.
  t.match(others(await start('http://127.0.0.1:1')), [{ level: 40, people: 1 }])
  t.same(others(await start(`${issuer}/`)), [])
})
