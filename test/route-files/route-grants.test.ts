// Grants and further profiles in route files are checked with their place, and tests can ask as a member of a group.
import { join } from 'node:path'
import t from 'tap'
import { loadRoutes, RouteFileError } from '../../gateway/route-files/load.ts'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import type { GroupSources } from '../../gateway/settings/cloud.ts'
import { only } from '../support/only.ts'
import { complaintsOf, routeFolder, UPSTREAMS } from '../support/route-files.ts'

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const ROUTES = `${UPSTREAMS}routes:
  - { path: /staff, upstream: up, roles: [Agente], requireAssigned: true }
  - { path: /money, upstream: up, roles: [Financeiro] }
`
const GRANTS = `profiles: [Financeiro]
grants:
  - { group: "${SUPORTE}", profiles: [Agente], areas: [Suporte] }
  - { claim: 0f3c, profiles: [Financeiro], areas: [Vendas] }
`

t.test('routes and grants may name the profiles of any file, and tests may ask as a member of a group', async t => {
  const folder = await routeFolder(t, {
    'a.yaml': `${ROUTES}tests:
  - GET /staff as group:"cn=suporte, ou=grupos, dc=corp, dc=example" -> allow
  - GET /money as group:"${SUPORTE}" -> 403
  - GET /money as Financeiro -> allow
  - GET /money as claim:"0f3c" -> allow
  - GET /staff as group:"CN=Other,DC=corp" -> 403
`,
    'b.yaml': GRANTS
  })
  const { table } = await loadRoutes(folder, ownRoutes())
  t.same(table.profiles, ['Admin', 'Supervisor', 'Agente', 'Financeiro'])
  t.match(table.grants.list, [
    {
      provider: 'ldap',
      group: SUPORTE,
      profiles: only('Agente'),
      place: { file: join(folder, 'b.yaml'), line: 3, column: 5 }
    },
    { provider: 'cloudidp', group: '0f3c', tenant: undefined }
  ])
  t.match(structuredClone(await readRouteFiles(folder)).grants, table.grants.list, 'it crosses to another process')
})

t.test('what a grant must not say is a mistake at its place', async t => {
  const complaints = await complaintsOf(t, {
    'a.yaml': `${ROUTES.replace('Financeiro', 'Financiero')}profiles: [Financeiro, admin, unassigned, "a b"]
grants:
  - { group: Suporte, profiles: [Agente] }
  - { group: "${SUPORTE}", claim: x, profiles: [Agente] }
  - { profiles: [Agente] }
  - { group: "${SUPORTE}" }
  - { group: "${SUPORTE}", tenant: t, areas: [Norte] }
  - { claim: x, profiles: [Agent], areas: ["${'x'.repeat(65)}"] }
  - { claim: x, profile: [Agente] }
tests:
  - GET /staff as group:"Suporte" -> allow
  - GET /staff as group:"CN=x -> allow
`
  })
  t.same(complaints, [
    'a.yaml:5:43: unknown role "Financiero" (did you mean "Financeiro"?)',
    'a.yaml:6:24: "admin" differs from the profile "Admin" only in case',
    'a.yaml:6:31: "unassigned" stands for people without a profile',
    'a.yaml:6:43: an entry of "profiles" must be a name made of letters, digits and any of - _ ., not "a b"',
    'a.yaml:8:14: "group" must be a full distinguished name such as CN=Suporte,OU=Grupos,DC=corp,DC=example; "portaria grants --find Suporte" shows it',
    'a.yaml:9:5: a grant needs either "group" or "claim"',
    'a.yaml:10:5: a grant needs either "group" or "claim"',
    'a.yaml:11:5: a grant needs "profiles" or "areas"',
    'a.yaml:12:65: "tenant" goes with "claim": a directory has no tenants',
    'a.yaml:13:28: unknown profile "Agent" (did you mean "Agente"?)',
    'a.yaml:13:44: the name of an area has at most 64 characters, none of them a control character',
    'a.yaml:14:17: unknown key "profile" (did you mean "profiles"?); allowed here: group, claim, tenant, profiles, areas',
    'a.yaml:16:5: "Suporte" is no distinguished name',
    'a.yaml:17:5: a group must be written in quotes, as in group:"CN=Suporte,DC=corp"'
  ])
})

// OA-14
t.test('a claim counts only where an issuer vouches for it, and with open tenants only for one of them', async t => {
  const check = async (yaml: string, groupSources: GroupSources) => {
    const folder = await routeFolder(t, { 'a.yaml': `${ROUTES}${yaml}` })
    try {
      const { table, warnings } = await loadRoutes(folder, ownRoutes(), { groupSources })
      return { grants: table.grants.list.length, warnings: warnings.map(({ line, message }) => `${line}: ${message}`) }
    } catch (error) {
      if (!(error instanceof RouteFileError)) throw error
      return error.complaints.map(({ line, column, message }) => `${line}:${column}: ${message}`)
    }
  }
  t.same(await check(GRANTS, { directory: true, claims: 'any' }), { grants: 2, warnings: [] })
  t.same(await check(GRANTS, { directory: true, claims: 'none' }), ['9:5: a grant to a claim needs CLOUDIDP_ISSUER'])
  t.same(await check(GRANTS, { directory: true, claims: 'by-tenant' }), [
    '9:5: with this CLOUDIDP_TENANT_ID a grant to a claim needs "tenant": others choose their own claims (for a provider with one tenant, such as Keycloak, name it in CLOUDIDP_TENANT_ID)'
  ])
  const byTenant = GRANTS.replace('claim: 0f3c', 'claim: 0f3c, tenant: 72F9')
  t.same(await check(byTenant, { directory: true, claims: 'by-tenant' }), { grants: 2, warnings: [] })
  t.same(await check(GRANTS, { directory: false, claims: 'any' }), {
    grants: 1,
    warnings: ['8: grants to groups of the directory give nothing: no groups are read (LDAP_SEARCH_BASE)']
  })
})

t.test('routes for browsers are warned of where logins leave no session cookie', async t => {
  const folder = await routeFolder(t, {
    'a.yaml': 'upstreams: { a: { url: http://127.0.0.1:1 } }\nroutes:\n  - { path: /x, upstream: a, browser: true }\n'
  })
  const warningsWith = async (browserSession: boolean) =>
    (await loadRoutes(folder, ownRoutes(), { browserSession })).warnings.map(
      ({ line, message }) => `${line}: ${message}`
    )
  t.same(await warningsWith(true), [])
  t.same(await warningsWith(false), [
    '3: "browser: true" has no effect without BROWSER_SESSION=true: logins leave no session cookie'
  ])
})
