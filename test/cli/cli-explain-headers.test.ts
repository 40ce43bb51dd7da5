import t from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { routeFolder } from '../support/route-files.ts'

const FILE = `upstreams:
  app:
    url: http://127.0.0.1:4001
    preserveHost: true
    identityHeaders: { X-WEBAUTH-USER: login }
    requestHeaders: { set: { X-Tenant: norte }, remove: [Accept-Language] }
  plain: { url: http://127.0.0.1:4002 }
routes:
  - { path: /app/*, upstream: app, stripPrefix: /app, forwardToken: true }
  - { path: /open/*, upstream: plain, public: true }
`

t.test('explain lists the header lines that a backend receives', async t => {
  const config = await routeFolder(t, { 'a.yaml': FILE })
  const ask = async (...words: string[]) => {
    const { code, stdout } = await portaria(['explain', ...words, '--config', config, '--headers', '--json'])
    t.equal(code, 0)
    return JSON.parse(stdout) as { headers?: string[]; removed?: string[] }
  }
  t.match(await ask('GET', '/app/x', '--as', 'Agente'), {
    headers: [
      'host: <host asked for>',
      'authorization: <as the client sent it>',
      'x-forwarded-for: <client address>',
      'x-forwarded-proto: <http or https>',
      'x-forwarded-host: <host asked for>',
      'x-forwarded-prefix: /app',
      'x-real-ip: <client address>',
      'x-request-id: <request id>',
      'x-user-id: <id>',
      'x-user-name: <name>',
      'x-user-email: <email>',
      'x-user-username: <username>',
      'x-user-provider: ldap',
      'x-user-profiles: Agente',
      'x-user-areas: <areas>',
      'x-user-area-principal: <areaPrincipal>',
      'x-user-access-status: assigned',
      'X-Tenant: norte',
      'X-WEBAUTH-USER: <provider:username>'
    ],
    removed: ['X-Tenant', 'X-WEBAUTH-USER', 'Accept-Language']
  })
  const open = await ask('GET', '/open/x', '--as', 'anonymous')
  t.equal(open.headers?.[0], 'host: 127.0.0.1:4002')
  t.notMatch(open.headers?.join(), /x-user-/)
  t.equal((await ask('GET', '/app/x', '--as', 'anonymous')).headers, undefined, 'a refused request reaches no backend')
  const { stdout } = await portaria(['explain', 'GET', '/app/x', '--as', 'Agente', '--config', config, '--headers'])
  t.match(stdout, /In addition to what the client sent, the backend receives:\n {2}host: <host asked for>\n/)
  t.match(stdout, /Removed from the client's request: X-Tenant, X-WEBAUTH-USER, Accept-Language/)
})
