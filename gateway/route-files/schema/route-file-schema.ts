// Describes the form of a route file, for validation and for editors. Run it after changing the schema.
import { writeFile } from 'node:fs/promises'
import { PROFILE_NAME_PATTERN } from '../../values/names.ts'
import { list, record, type Schema, text } from './forms.ts'
import { type RouteData, routeSchema } from './route-schema.ts'
import { type UpstreamData, upstreamSchema } from './upstream-schema.ts'

export interface RouteFileData {
  readonly upstreams?: Readonly<Record<string, UpstreamData>>
  readonly routes?: readonly RouteData[]
  readonly profiles?: readonly string[]
  readonly grants?: readonly GrantData[]
  readonly tests?: readonly string[]
}

export interface GrantData {
  readonly group?: string
  readonly claim?: string
  readonly tenant?: string
  readonly profiles?: readonly string[]
  readonly areas?: readonly string[]
}

const grant = record(
  'a grant',
  'Gives profiles and areas to the members of a group, in addition to what an Admin has assigned.',
  {
    group: text(
      'the distinguished name of a group',
      'Full DN of a group in the directory; members of nested groups count as members.',
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

/** JSON Schema (draft-07) of a route file. */
export const routeFileSchema: Schema = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  ...record(
    'a map with upstreams, routes and tests',
    'Portaria route file: upstreams, routes, and tests of the access rules.',
    {
      upstreams: {
        title: 'a map of upstreams',
        description: 'Backends by name. A name can be used by the routes of all files in the directory.',
        examples: [{ orders: { url: 'http://127.0.0.1:4001' } }],
        type: 'object',
        propertyNames: {
          title: 'a name made of letters, digits and any of - _ .',
          pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'
        },
        additionalProperties: upstreamSchema
      },
      routes: {
        title: 'a list of routes',
        description: 'Routes, private by default. The most specific route wins; their order does not matter.',
        examples: [[{ path: '/api/orders/*', upstream: 'orders' }]],
        type: 'array',
        items: routeSchema
      },
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
      grants: {
        title: 'a list of grants',
        description: 'Access that members of groups get, applied at each login and whenever this file changes.',
        examples: [[{ group: 'CN=Suporte,OU=Grupos,DC=corp,DC=example', profiles: ['Agente'], areas: ['Suporte'] }]],
        type: 'array',
        items: grant
      },
      tests: {
        title: 'a list of test lines',
        description:
          'Tests that are run whenever the file is loaded: METHOD PATH as WHO -> OUTCOME, or EVENT NAMESPACE NAME as WHO -> OUTCOME for a Socket.IO event. WHO is anonymous, unassigned, cloud-unassigned, roles joined by + (ROLE without area; client ROLE) or group:"DN"; OUTCOME is allow or a status.',
        examples: [
          [
            'DELETE /api/orders/7 as Supervisor -> 403',
            'GET /api/orders/7 as Agente+Supervisor -> allow',
            'EVENT /messaging send as Agente -> allow'
          ]
        ],
        type: 'array',
        items: text(
          'a test line such as "GET /api/orders/7 as Agente -> allow"',
          'METHOD PATH as WHO -> OUTCOME',
          'GET /api/orders/7 as anonymous -> 401'
        )
      }
    }
  )
}

/** The text of `schema.json`. */
export const schemaText = (): string => `${JSON.stringify(routeFileSchema, null, 2)}\n`

if (import.meta.main) {
  await writeFile(new URL('../../../upstream-config/schema.json', import.meta.url), schemaText())
}
