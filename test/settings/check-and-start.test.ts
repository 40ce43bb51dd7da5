// What `portaria check` says of the settings is what a start says of them.
import { join } from 'node:path'
import t from 'tap'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { portariaHere } from '../support/cli-here.ts'
import { startGateway } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { routeFolder } from '../support/route-files.ts'
import { settingsFindings } from '../support/settings-findings.ts'

const ENV = { JWT_SECRET: '3f9d2c61b8a47e05d1c7f6a2938b4e5c70a1d2f3' }
const LDAP = { LDAP_ENABLED: 'true', LDAP_URL: 'ldaps://dc1.corp.example', LDAP_DOMAIN: 'corp.example' }
const SEARCH = { ...LDAP, LDAP_SEARCH_BASE: 'dc=corp,dc=example', LDAP_SEARCH_FILTER: '(uid={{username}})' }

/** As an unfilled placeholder; written so that it is none here. */
const braced = (name: string) => ['$', '{', name, '}'].join('')

const folder = await routeFolder(t, { 'a.yaml': 'routes: []\n' })

/** The variables with mistakes, at `check` and at the start alike. */
const checked = async (more: Record<string, string>) => {
  const env = { ...ENV, ...more }
  const checked = await portariaHere(['check', folder, '--json'], { env })
  const { mistakes, warnings } = (checked.json() as { settings: Record<string, unknown> }).settings
  const started = settingsFindings(env)
  t.same({ mistakes, warnings }, started, 'check and start agree', { env })
  t.equal(checked.code, started.mistakes.length > 0 ? 1 : 0)
  return { mistakes: started.mistakes.map(({ variable }) => variable), warnings: started.warnings }
}

// RV-91
t.test('a filter of the directory is parsed by check as at a start', async t => {
  const right = [
    ...['(uid={{username}})', '(& (a=b) (uid={{username}}))', '(|(uid;lang-pt={{username}})(mail={{username}}))'],
    ...['(2.5.4.3={{username}})', '(uid=\\2a{{username}})']
  ]
  const wrong = [
    ...['(uid=\\q{{username}})', '(uid={{username}}', '(uid={{username}}))', '(&(uid={{username}})mail=x)'],
    ...['({{username}}=x)', '(uid={{username}})(a=b)']
  ]
  for (const filter of [...right, ...wrong]) {
    const isRight = right.includes(filter)
    const search = await checked({ ...SEARCH, LDAP_SEARCH_FILTER: filter })
    t.same(search.mistakes, isRight ? [] : ['LDAP_SEARCH_FILTER'], filter)
    const groups = { LDAP_GROUP_BASE: 'ou=groups,dc=x', LDAP_GROUP_FILTER: filter.replaceAll('username', 'dn') }
    t.same((await checked({ ...SEARCH, ...groups })).mistakes, isRight ? [] : ['LDAP_GROUP_FILTER'], filter)
  }
})

// RV-92
t.test('the base of a search is a distinguished name', async t => {
  for (const base of ['dc=corp,dc=example', 'ou=Caf\\c3\\a9 + l=x , O=corp', 'OID.2.5.4.10=corp'])
    t.same((await checked({ ...SEARCH, LDAP_SEARCH_BASE: base, LDAP_GROUP_BASE: base })).mistakes, [], base)
  for (const base of ['not a dn', 'ou=groups,', ',dc=x', 'dc', 'dc=corp;dc=example', 'ou=a\\q', 'corp.example']) {
    t.same((await checked({ ...SEARCH, LDAP_SEARCH_BASE: base })).mistakes, ['LDAP_SEARCH_BASE'], base)
    t.same((await checked({ ...SEARCH, LDAP_GROUP_BASE: base })).mistakes, ['LDAP_GROUP_BASE'], base)
  }
})

// RV-93
t.test('addresses without https beside an https PUBLIC_URL are named at check, at start and in /health', async t => {
  const cloud = {
    CLOUDIDP_ENABLED: 'true',
    CLOUDIDP_CLIENT_ID: 'x',
    CLOUDIDP_CLIENT_SECRET: 'y',
    CLOUDIDP_ALLOWED_TENANTS: '7f0c'
  }
  const plain = {
    FRONTEND_URL: 'http://app.corp.example/x',
    CORS_ORIGINS: 'https://a.corp.example,http://b.corp.example',
    CLOUDIDP_SUCCESS_REDIRECT_URL: 'http://c.corp.example/login'
  }
  const named = async (more: Record<string, string>) => {
    const { mistakes, warnings } = await checked({ ...cloud, PUBLIC_URL: 'https://g.corp.example', ...more })
    t.same(mistakes, [])
    return warnings.flatMap(warning => /^(\w+) is http:\/\/ although/.exec(warning)?.[1] ?? [])
  }
  for (const [name, value] of Object.entries(plain)) {
    t.same(await named({ [name]: value }), [name])
    t.same(await named({ [name]: 'http://127.0.0.1:4200' }), [], 'loopback is exempt')
    t.same(await named({ [name]: value.replaceAll('http:', 'https:') }), [])
  }
  t.same(await named(plain), Object.keys(plain))
  t.same(await named({ ...plain, PUBLIC_URL: 'http://localhost:3000' }), [], 'nothing else is encrypted either')
  // No cloud login goes there.
  t.same(await named({ ...plain, AUTH_PROVIDERS: 'ldap' }), ['FRONTEND_URL', 'CORS_ORIGINS'])

  const world = await startGateway(t, {
    env: { PUBLIC_URL: 'https://g.corp.example', FRONTEND_URL: plain.FRONTEND_URL, LDAP_INSECURE: 'true' }
  })
  t.match((await world.health()).checks, { addresses: 'insecure', directory: undefined }, 'directory login is off')
  const token = await world.tokenFor({ profiles: ['Admin'] })
  t.match(await world.json('/auth/admin/status', { token }), { insecure: only('FRONTEND_URL') })
})

// RV-94
t.test('a password may contain what looks like a placeholder, and only a whole one is refused', async t => {
  const service = { ...SEARCH, LDAP_BIND_DN: 'cn=svc,dc=corp' }
  const parts = [`a${braced('x')}`, `${braced('x')}y`, `p${braced('PASS')}w`, '$(X)$', '$pass', 'a<b>', '<a>b', 'x,$B']
  for (const password of [...parts, '${', braced(''), braced('1')]) {
    t.same((await checked({ ...service, LDAP_BIND_PASSWORD: password })).mistakes, [], password)
    t.equal(readSettings({ ...ENV, ...service, LDAP_BIND_PASSWORD: password }, []).ldap.bindPassword, password)
  }
  const whole = [braced('x'), braced('LDAP_BIND_PASSWORD'), '$(PASSWORD)', '$PASSWORD', '<password>']
  for (const password of whole) {
    const { mistakes } = await checked({ ...service, LDAP_BIND_PASSWORD: password })
    t.same(mistakes, ['LDAP_BIND_PASSWORD', 'LDAP_BIND_PASSWORD'], password)
    const file = join(t.testdir({ password: `${password}\n` }), 'password')
    t.same((await checked({ ...service, LDAP_BIND_PASSWORD_FILE: file })).mistakes, [], 'a file is taken as it is')
    t.equal(readSettings({ ...ENV, ...service, LDAP_BIND_PASSWORD_FILE: file }, []).ldap.bindPassword, password)
  }
  // An address has no such characters.
  t.same((await checked({ PUBLIC_URL: `https://${braced('HOST')}` })).mistakes, ['PUBLIC_URL'])
  t.same((await checked({ DATABASE_URL: `postgres://u:${braced('PASS')}@db/x` })).mistakes, ['DATABASE_URL'])
})
