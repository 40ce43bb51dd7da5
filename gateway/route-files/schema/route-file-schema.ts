// Describes the form of a route file, for validation and for editors. Run it after changing the schema.
import { writeFile } from 'node:fs/promises'
import { ROUTE_FLAGS, type RouteFlags } from '../../routes/route.ts'
import { PROFILE_NAME_PATTERN } from '../../values/names.ts'
import { ROUTE_OPTIONS } from '../define/route-options.ts'
import { type Accepted, flag, type Keywords, list, mapOf, record, roles, type Schema, text } from './forms.ts'
import { upstreamSchema } from './upstream-schema.ts'

type Options = typeof ROUTE_OPTIONS

const FLAGS = Object.fromEntries(Object.entries(ROUTE_FLAGS).map(([name, says]) => [name, flag(says)])) as Record<
  keyof RouteFlags,
  Schema<boolean>
>

const OPTIONS = Object.fromEntries(Object.entries(ROUTE_OPTIONS).map(([name, { schema }]) => [name, schema])) as {
  [Name in keyof Options]: Options[Name]['schema']
}

const METHOD: Schema<string> = {
  title: 'a method in upper case',
  type: 'string',
  pattern: "^(?!CONNECT$)[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$"
}

export const routeSchema = record(
  'a route',
  'Requests to forward, the upstream that receives them, and the people who may send them.',
  {
    path: text(
      'a path that begins with /',
      'Path to match: exactly, with :name for any one segment, or with /* at the end for the path itself and everything below it.',
      '/api/orders/*'
    ),
    upstream: text(
      'the name of an upstream',
      'Upstream that receives the requests. Required unless external is true.',
      'orders'
    ),
    methods: list(
      'a list of methods',
      'Methods to match; GET includes HEAD, unless another route with this path names HEAD. Without this key, all methods match except TRACE and CONNECT.',
      METHOD,
      ['GET', 'POST']
    ),
    roles,
    ...FLAGS,
    stripPrefix: text(
      'a path that begins with /',
      'Prefix that is removed from the path before the request is forwarded.',
      '/api'
    ),
    ...OPTIONS
  },
  {
    required: ['path'],
    if: { required: ['external'], properties: { external: { const: true } } },
    else: { title: 'a route', required: ['upstream'] },
    examples: [{ path: '/api/orders/*', upstream: 'orders', roles: ['Admin'] }]
  }
)

const grant = record(
  'a grant',
  'Gives profiles and areas to the members of a group, in addition to what an Admin has assigned.',
  {
    group: text(
      'the distinguished name of a group',
      'Full DN of a group in the directory. In Active Directory, members of nested groups count as members; elsewhere, memberOf or LDAP_GROUP_FILTER tells who is one.',
      'CN=Suporte,OU=Grupos,DC=corp,DC=example'
    ),
    claim: text(
      'a value of CLOUDIDP_GROUPS_CLAIM',
      'Group or role of the cloud provider, compared exactly; use ids or app roles rather than display names.',
      '0f3c7d1e-5a0b-4d2f-9a57-2d1c3b4a5968',
      { maxLength: 512 }
    ),
    tenant: text(
      'the id of a tenant',
      'Tenant (tid) to which the grant is limited. Required with the tenants common, organizations and consumers.',
      '72f988bf-86f1-41af-91ab-2d7cd011db47',
      { pattern: '^[\\w.-]{1,128}$' }
    ),
    profiles: list(
      'a list of profiles',
      'Profiles that members get.',
      text('the name of a profile', 'Admin, Supervisor, Agente, or a name listed under profiles.', 'Agente'),
      ['Agente']
    ),
    areas: list(
      'a list of areas',
      'Areas that members get; areas that do not exist are created.',
      text('the name of an area', 'The first area of the first grant becomes the main area.', 'Suporte'),
      ['Suporte']
    )
  },
  { examples: [{ group: 'CN=Suporte,OU=Grupos,DC=corp,DC=example', profiles: ['Agente'], areas: ['Suporte'] }] }
)

const MAY_BE_EMPTY = { uniqueItems: false, minItems: 0 }

const routeFile = record(
  'a map with upstreams, routes and tests',
  'Portaria route file: upstreams, routes, and tests of the access rules.',
  {
    upstreams: mapOf(
      'a map of upstreams',
      'Backends by name. A name can be used by the routes of all files in the directory.',
      upstreamSchema,
      { orders: { url: 'http://127.0.0.1:4001' } },
      {
        propertyNames: {
          title: 'a name made of letters, digits and any of - _ .',
          pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'
        }
      }
    ),
    routes: list(
      'a list of routes',
      'Routes, private by default. The most specific route wins; their order does not matter.',
      routeSchema,
      [{ path: '/api/orders/*', upstream: 'orders' }],
      MAY_BE_EMPTY
    ),
    profiles: list(
      'a list of profiles',
      'Profiles in addition to Admin, Supervisor and Agente, for all files in the directory.',
      text(
        'a name made of letters, digits and any of - _ .',
        'Admins can assign it; routes and grants can name it.',
        'Financeiro',
        {
          pattern: PROFILE_NAME_PATTERN
        }
      ),
      ['Financeiro', 'Auditor'],
      { minItems: 0 }
    ),
    grants: list(
      'a list of grants',
      'Access that members of groups get, applied at each login and whenever this file changes.',
      grant,
      [{ group: 'CN=Suporte,OU=Grupos,DC=corp,DC=example', profiles: ['Agente'], areas: ['Suporte'] }],
      MAY_BE_EMPTY
    ),
    tests: list(
      'a list of test lines',
      'Tests that are run whenever the file is loaded: METHOD PATH as WHO -> OUTCOME, or EVENT NAMESPACE NAME as WHO -> OUTCOME for a Socket.IO event. WHO is anonymous, unassigned, cloud-unassigned, roles joined by + (ROLE without area; client ROLE) or group:"DN"; OUTCOME is allow or a status.',
      text(
        'a test line such as "GET /api/orders/7 as Agente -> allow"',
        'METHOD PATH as WHO -> OUTCOME',
        'GET /api/orders/7 as anonymous -> 401'
      ),
      [
        'DELETE /api/orders/7 as Supervisor -> 403',
        'GET /api/orders/7 as Agente+Supervisor -> allow',
        'EVENT /messaging send as Agente -> allow'
      ],
      MAY_BE_EMPTY
    )
  }
)

/** JSON Schema (draft-07) of a route file. */
export const routeFileSchema: Keywords = { $schema: 'http://json-schema.org/draft-07/schema#', ...routeFile }

export type RouteData = Accepted<typeof routeSchema>
export type GrantData = Accepted<typeof grant>
export type RouteFileData = Accepted<typeof routeFile>

/** The text of `schema.json`. */
export const schemaText = (): string => `${JSON.stringify(routeFileSchema, null, 2)}\n`

if (import.meta.main) {
  await writeFile(new URL('../../../upstream-config/schema.json', import.meta.url), schemaText())
}
