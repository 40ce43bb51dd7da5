// /auth/apps lists exactly what the person may open, by header and by cookie.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const [ldap, postgres, raw] = await Promise.all([startOpenLdap(t), startPostgres(t), startRawUpstream(t)])

const GRANTS = [
  {},
  { public: true },
  { roles: ['Admin'] },
  { roles: ['Agente', 'Supervisor'] },
  { requireAssigned: true },
  { roles: ['Supervisor'], requireAssigned: true }
]
const page = { upstream: 'raw', browser: true }

/** Each rule on an exact path, on a path with everything below, and with an address that another route decides. */
const tiles = GRANTS.flatMap((rule, i) => [
  { path: `/exact${i}`, app: { name: `exact ${i}`, url: `/exact${i}` }, ...rule },
  { path: `/below${i}/*`, app: { name: `below ${i}`, url: `/below${i}`, icon: '/icon.svg' }, ...rule },
  { path: `/of/:name${i}/x${i}`, app: { name: `narrower ${i}`, url: `/of/me/x${i}?tab=1#top` }, ...rule }
])
const world = await startGateway(t, {
  postgres,
  env: { ...ldap.env, BROWSER_SESSION: 'true', BOOTSTRAP_ADMINS: 'ldap:maria' },
  config: {
    upstreams: { raw: { url: raw.url } },
    routes: [
      // Without `url`, the address is that of the path.
      ...tiles.map(({ app: { url, ...app }, ...tile }) => ({
        ...page,
        ...tile,
        app: url.includes('?') ? { ...app, url } : app
      })),
      ...GRANTS.map((_, i) => ({ ...page, path: `/of/me/x${i}`, roles: ['Admin'] })),
      {
        path: '/elsewhere/:id',
        upstream: 'raw',
        roles: ['Admin'],
        app: { name: 'elsewhere', url: 'https://a.example/' }
      },
      { path: '/*', upstream: 'raw', methods: ['GET'], public: true, app: { name: 'start' } }
    ]
  }
})

const list = async (headers: Record<string, string>) => {
  const answer = await world.fetch('/auth/apps', { headers: { accept: 'application/json', ...headers } })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('vary'), 'Origin, Accept')
  return ((await answer.json()) as { items: { name: string; url: string }[] }).items
}

const UNASSIGNED = { areas: [], areaPrincipal: '', accessStatus: 'unassigned' as const }

t.test('a tile is listed for exactly those whom its route and its address let through', async t => {
  for (const asker of [
    { profiles: ['Admin'] },
    { profiles: ['Supervisor'] },
    { profiles: ['Agente'] },
    { profiles: ['Agente'], ...UNASSIGNED },
    { profiles: [], ...UNASSIGNED }
  ]) {
    const authorization = `Bearer ${await world.tokenFor({ areas: ['Geral'], ...asker })}`
    const listed = new Map((await list({ authorization })).map(item => [item.name, item.url]))
    const passes = async (path: string) => (await world.fetch(path, { headers: { authorization } })).status === 200
    for (const { path, app } of tiles) {
      const mayOpen = (await passes(app.url.replace('#top', ''))) && (await passes(path.replace(/\/\*|:/, '')))
      t.equal(listed.get(app.name), mayOpen ? app.url : undefined, `${app.name} for ${JSON.stringify(asker)}`)
    }
    t.equal(listed.get('start'), '/')
    t.equal(listed.has('elsewhere'), asker.profiles[0] === 'Admin')
  }
})

t.test('without a token there is a page, and no list', async t => {
  const page = await world.fetch('/auth/apps', { headers: { accept: 'text/html' } })
  t.equal(page.status, 200)
  t.match(page.headers.get('content-type'), 'text/html')
  t.match(await page.text(), '<meta name="portaria:apps" content="true">')
  const accept = 'application/json'
  const expired = await world.tokenFor({}, { exp: 1 })
  for (const [headers, code] of [
    [{}, 'GW_UNAUTHENTICATED'],
    [{ authorization: 'Bearer x.y.z' }, 'GW_UNAUTHENTICATED'],
    [{ authorization: `Bearer ${expired}` }, 'GW_TOKEN_EXPIRED']
  ] as const) {
    t.match(await world.json('/auth/apps', { headers: { accept, ...headers } }), { statusCode: 401, code })
  }
})

t.test('the session cookie is enough for the list, but not from another site', async t => {
  const fields = (await postLogin(world, 'maria')).headers.getSetCookie()
  const cookie = fields.map(field => field.split(';', 1)[0]).join('; ')
  const items = await list({ cookie })
  t.match(items[0], { name: 'exact 0', description: '', icon: '', url: '/exact0' })
  t.match(items[1], { name: 'below 0', icon: '/icon.svg', url: '/below0' })
  const foreign = { accept: 'application/json', cookie, 'sec-fetch-site': 'cross-site' }
  t.equal((await world.fetch('/auth/apps', { headers: foreign })).status, 403)
})

t.test('a gateway whose routes name no application says so on its pages', async t => {
  const plain = await startGateway(t, { postgres })
  t.match(await (await plain.fetch('/auth/login')).text(), '<meta name="portaria:apps" content="false">')
})
