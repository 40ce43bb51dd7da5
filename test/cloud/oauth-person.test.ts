// What a provider says about somebody becomes the person of the contract, whichever shape it has.
import t from 'tap'
import { provePerson } from '../../gateway/cloud/person.ts'
import { admittedTenants } from '../../gateway/settings/cloud.ts'
import { beginCloudLogin, createCloudBrowser } from '../support/cloud-browser.ts'
import { startFaultyProvider } from '../support/faulty-provider.ts'
import { startOAuthApp } from '../support/oauth-app.ts'

const common = { tenantId: 'common', allowedTenants: undefined, groupsClaim: 'groups' }
const source = 'https://graph.microsoft.com/v1.0/me'
const check = (profile: Record<string, unknown>, idToken?: Record<string, unknown>, settings: Settings = common) =>
  provePerson({ profile, idToken, isOpenId: idToken?.iss !== undefined, profileSource: source }, settings)
type Settings = Parameters<typeof provePerson>[1]

t.test('a Graph profile is known by its id; mail and userPrincipalName are only names', async t => {
  const graph = { id: 'f3b0-1', displayName: 'Ana Souza', userPrincipalName: 'ana@corp.example' }
  t.same(check({ ...graph, mail: 'ana.souza@corp.example' }), {
    provider: 'cloudidp',
    issuer: source,
    subject: 'f3b0-1',
    name: 'Ana Souza',
    email: 'ana.souza@corp.example',
    username: 'ana@corp.example'
  })
  t.match(check({ ...graph, mail: null }), { email: 'ana@corp.example', username: 'ana@corp.example' })
})

t.test('a userinfo profile is known by the subject of the validated ID token', async t => {
  const idToken = { iss: 'https://id.example', sub: 's-1', preferred_username: 'ana', tid: 'x' }
  t.match(check({ sub: 's-1', name: 'Ana', email: 'ana@corp.example' }, idToken), {
    provider: 'cloudidp',
    issuer: 'https://id.example',
    subject: 's-1',
    name: 'Ana',
    email: 'ana@corp.example',
    username: 'ana'
  })
  t.match(check({ id: 'another', sub: 's-1' }, idToken), { subject: 's-1' })
})

t.test('the e-mail stands in for a missing login name; what is missing is empty', async t => {
  t.match(check({ sub: 's', email: 'ana@corp.example' }), { username: 'ana@corp.example', name: '' })
  t.match(check({ sub: 's' }), { username: '', name: '', email: '' })
  t.match(check({ sub: 's', name: 'A\u0000n\r\na', email: ['x'] }), { name: 'Ana', email: '' })
  t.equal(check({ sub: 's', name: 'x'.repeat(5000) }).name.length, 256)
})

// OA-12
t.test('nothing but a stable subject names somebody', async t => {
  const reason = (profile: Record<string, unknown>) => {
    try {
      return check(profile).subject
    } catch (error) {
      return (error as { reason?: string }).reason
    }
  }
  for (const sub of [undefined, null, '', {}, ['a'], true, 1.5, 'x'.repeat(256), 'a\u0000b', '\ud800']) {
    t.equal(reason({ sub, email: 'ana@corp.example', oid: 'x' }), 'subject-missing', JSON.stringify(sub) ?? 'undefined')
  }
  t.equal(reason({ id: 42 }), '42')
})

// OA-14
t.test('tenants: one is compared, open ones let in whom the list names', async t => {
  const enter = (tid: string | undefined, settings: Omit<Settings, 'groupsClaim'>) => {
    try {
      return check({ sub: 's' }, tid === undefined ? undefined : { tid }, { ...common, ...settings }).subject
    } catch (error) {
      return (error as { reason?: string }).reason
    }
  }
  t.equal(enter('t-1', { tenantId: 'common', allowedTenants: ['t-1'] }), 's')
  t.equal(enter('T-1', { tenantId: 'common', allowedTenants: ['t-1'] }), 's')
  t.equal(enter('t-12', { tenantId: 'organizations', allowedTenants: ['t-1'] }), 'tenant-refused')
  t.equal(enter(undefined, { tenantId: 'common', allowedTenants: ['t-1'] }), 'tenant-unknown')
  t.equal(enter('t-9', { tenantId: 'common', allowedTenants: ['*'] }), 's')
  t.equal(enter('t-9', { tenantId: 'common', allowedTenants: undefined }), 's')
  t.equal(enter('t-9', { tenantId: 't-1', allowedTenants: undefined }), 'tenant-refused')
  t.equal(enter('t-9', { tenantId: 't-1', allowedTenants: ['*'] }), 'tenant-refused')
  t.equal(enter(undefined, { tenantId: 't-1', allowedTenants: undefined }), 's')
  t.equal(enter('t-9', { tenantId: 'corp.example', allowedTenants: undefined }), 's')
})

t.test('a start ends what people hold whom no login would admit any more', async t => {
  const admits = (settings: Omit<Settings, 'groupsClaim'>) => {
    const admitted = admittedTenants(settings)
    return ['t-1', 't-2'].filter(tid => admitted?.includes(tid) ?? true)
  }
  t.same(admits({ tenantId: 'T-1', allowedTenants: ['t-1', 'T-2'] }), ['t-1'])
  t.same(admits({ tenantId: 't-1', allowedTenants: ['*'] }), ['t-1'])
  t.same(admits({ tenantId: 't-1', allowedTenants: undefined }), ['t-1'])
  t.same(admits({ tenantId: 'common', allowedTenants: ['T-2'] }), ['t-2'])
  t.same(admits({ tenantId: 'corp.example', allowedTenants: ['*'] }), ['t-1', 't-2'])
})

// OA-14
t.test('with an issuer of many tenants, each ID token must be of the issuer of its own tenant', async t => {
  const provider = await startFaultyProvider(t)
  const { issuer } = provider
  provider.metadata = { issuer: `${issuer}/{tenantid}/v2.0` }
  const app = await startOAuthApp(t, { cloudidp: { issuer: `${issuer}/common/v2.0` } })
  const logIn = async (claims: Record<string, unknown>) => {
    provider.claims = claims
    const browser = createCloudBrowser()
    return (await browser.get(provider.authorize(await beginCloudLogin(browser, app.url)))).status
  }
  t.equal(await logIn({ tid: 'tenant-1', iss: `${issuer}/tenant-1/v2.0` }), 302)
  t.equal(await logIn({ tid: 'tenant-2', iss: `${issuer}/tenant-2/v2.0` }), 302)
  t.equal(await logIn({ tid: 'tenant-1', iss: `${issuer}/tenant-2/v2.0` }), 401)
  t.equal(await logIn({ tid: 'tenant-1', iss: `${issuer}/{tenantid}/v2.0` }), 401)
  t.equal(await logIn({ tid: '{tenantid}', iss: `${issuer}/{tenantid}/v2.0` }), 401)
  t.equal(await logIn({ iss: `${issuer}/{tenantid}/v2.0` }), 401)
  const issuers = app.people.map(person => person.issuer)
  t.same(issuers, [`${issuer}/tenant-1/v2.0`, `${issuer}/tenant-2/v2.0`])
})
