// /auth/apps lists exactly what the person may open, by header and by cookie.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const [ldap, postgres, raw] = await Promise.all([startOpenLdap(t), startPostgres(t), startRawUpstream(t)])
raw.respond(() => OK)

const GRANTS: readonly object[] = [
  {},
  { public: true },
  { roles: ['Admin'] },
  { roles: ['Agente', 'Supervisor'] },
  { requireAssigned: true },
  { roles: ['Supervisor'], requireAssigned: true }
]

/** Each rule on an exact path, on a path with everything below, and with an address that another route decides. */
const routes = GRANTS.flatMap((rule, i) => [
  { path: `/exact${i}`, upstream: 'raw', browser: true, ...rule, app: { name: `exact ${i}` } },
  { path: `/below${i}/*`, upstream: 'raw', browser: true, ...rule, app: { name: `below ${i}`, icon: '/icon.svg' } },
  {
    path: `/of/:name${i}/x${i}`,
    upstream: 'raw',
    browser: true,
    ...rule,
    app: { name: `narrower ${i}`, description: 'opens where only Admins may', url: `/of/me/x${i}?tab=1#top` }
  },
  { path: `/of/me/x${i}`, upstream: 'raw', browser: true, roles: ['Admin'] }
])
const world = await startGateway(t, {
  postgres,
  env: { ...ldap.env, BROWSER_SESSION: 'true', BOOTSTRAP_ADMINS: 'ldap:maria' },
  config: {
    upstreams: { raw: { url: raw.url } },
    routes: [
      ...routes,
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

interface Item {
  readonly name: string
  readonly description: string
  readonly icon: string
  readonly url: string
}

const list = async (headers: Record<string, string>): Promise<Item[]> => {
  const answer = await world.fetch('/auth/apps', { headers: { accept: 'application/json', ...headers } })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('vary'), 'Origin, Accept')
  return ((await answer.json()) as { items: Item[] }).items
}

const ASKERS = [
  { profiles: ['Admin'] },
  { profiles: ['Supervisor'] },
  { profiles: ['Agente'] },
  { profiles: ['Agente'], areas: [], areaPrincipal: '', accessStatus: 'unassigned' },
  { profiles: [], areas: [], areaPrincipal: '', accessStatus: 'unassigned' }
] as const

t.test('a tile is listed for exactly those whom its route and its address let through', async t => {
  for (const asker of ASKERS) {
    const token = await world.tokenFor({
      ...asker,
      profiles: [...asker.profiles],
      areas: [...('areas' in asker ? [] : ['Geral'])]
    })
    const authorization = `Bearer ${token}`
    const listed = new Map((await list({ authorization })).map(item => [item.name, item.url]))
    const passes = async (path: string) => (await world.fetch(path, { headers: { authorization } })).status === 200
    for (const route of routes) {
      if (!('app' in route)) continue
      const url = 'url' in route.app ? route.app.url : route.path.replace('/*', '')
      const expected =
        (await passes(url.replace('#top', ''))) && (await passes(route.path.replace('/*', '').replace(':', '')))
      t.equal(listed.get(route.app.name), expected ? url : undefined, `${route.app.name} for ${JSON.stringify(asker)}`)
    }
    t.equal(listed.get('start'), '/')
    t.equal(listed.has('elsewhere'), asker.profiles.includes('Admin' as never))
  }
})

t.test('without a token there is a page, and no list', async t => {
  const page = await world.fetch('/auth/apps', { headers: { accept: 'text/html' } })
  t.equal(page.status, 200)
  t.match(page.headers.get('content-type'), 'text/html')
  t.match(await page.text(), '<meta name="portaria:apps" content="true">')
  const accept = 'application/json'
  for (const authorization of [undefined, 'Bearer x.y.z']) {
    const headers = { accept, ...(authorization === undefined ? {} : { authorization }) }
    const refused = await world.fetch('/auth/apps', { headers })
    t.match(await refused.json(), { statusCode: 401, code: 'GW_UNAUTHENTICATED' })
  }
  const disabled = await world.tokenFor({}, { exp: 1 })
  const ended = await world.fetch('/auth/apps', { headers: { accept, authorization: `Bearer ${disabled}` } })
  t.equal(ended.status, 401)
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
