// Grants on the command line: listed, explained, in the matrix, and compared.
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { only } from '../support/only.ts'
import { routeFolder } from '../support/route-files.ts'

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const ROUTES = `upstreams:
  up: { url: http://127.0.0.1:4001 }
profiles: [Financeiro]
routes:
  - { path: /money, upstream: up, roles: [Financeiro] }
`
const granting = (profiles: string, group = SUPORTE) =>
  `${ROUTES}grants:\n  - { group: "${group}", profiles: [${profiles}], areas: [Suporte] }\n`

t.test('grants are listed with their place', async t => {
  const folder = await routeFolder(t, { 'a.yaml': granting('Financeiro') })
  const { code, json } = await portaria(['grants', '--config', folder, '--json'])
  t.equal(code, 0)
  t.match(json(), [
    { group: SUPORTE, provider: 'ldap', profiles: only('Financeiro'), areas: only('Suporte'), place: /a\.yaml:7:5$/ }
  ])
  const unset = await portaria(['grants', '--find', 'Suporte'], {
    env: { JWT_SECRET: randomBytes(32).toString('hex') }
  })
  t.equal(unset.code, 2)
  t.match(unset.stderr, /LDAP_ENABLED/)
})

t.test('a request can be explained as a member of a group, and further profiles have a column', async t => {
  const folder = await routeFolder(t, { 'a.yaml': granting('Financeiro') })
  const as = (who: string) => portaria(['explain', 'GET', '/money', '--as', who, '--config', folder, '--json'])
  t.match((await as(`group:"${SUPORTE.toLowerCase()}"`)).json(), {
    decision: 'allow',
    everybody: { Financeiro: 'allow' }
  })
  t.match((await as('group:CN=Other,DC=corp')).json(), { decision: 403 })
  t.match((await as('Financeiro')).json(), { decision: 'allow' })
  t.equal((await as('Financeira')).code, 2)
  const matrix = await portaria(['matrix', '--config', folder, '--json'])
  t.match(matrix.json(), [{ id: '/money', allowed: { Financeiro: true, Admin: false } }])
})

t.test('a grant that opens more is found by diff', async t => {
  const before = await routeFolder(t, { 'a.yaml': granting('Agente') })
  const after = await routeFolder(t, { 'a.yaml': granting('Agente, Financeiro', SUPORTE.toLowerCase()) })
  const more = await portaria(['diff', before, after])
  t.equal(more.code, 1)
  t.match(more.stdout, /LOOSER {2}members of cn=suporte.* are now granted the profiles Financeiro/)
  const less = await portaria(['diff', after, before])
  t.equal(less.code, 0)
  t.match(less.stdout, /CHANGED members of CN=Suporte.* are no longer granted the profiles Financeiro/)
})
