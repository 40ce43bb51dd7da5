// The form of a route file: one schema, which judges it here and helps editors there.
import { IDENTITY_ATTRIBUTES, type IdentityHeader, type PathException } from '../routes/route.ts'
import { PROFILE_NAME_PATTERN } from '../values/names.ts'
import { DURATION_OR_ZERO_PATTERN, DURATION_PATTERN, SIZE_PATTERN } from '../values/quantities.ts'

export interface RouteFileData {
  readonly upstreams?: Readonly<Record<string, UpstreamData>>
  readonly routes?: readonly RouteData[]
  readonly profiles?: readonly string[]
  readonly grants?: readonly GrantData[]
  readonly tests?: readonly string[]
}

export interface UpstreamData {
  readonly url?: string
  readonly targets?: readonly string[]
  readonly timeout?: string | number
  readonly idleTimeout?: string | number
  readonly connectTimeout?: string | number
  readonly caFile?: string
  readonly clientCertFile?: string
  readonly clientKeyFile?: string
  readonly serverName?: string
  readonly preserveHost?: boolean
  readonly assertion?: boolean
  readonly sharedCache?: boolean
  readonly requestHeaders?: HeaderRulesData
  readonly responseHeaders?: HeaderRulesData
  readonly identityHeaders?: Readonly<Record<string, IdentityHeader['attribute']>>
  readonly identityHeadersShared?: boolean
  readonly healthCheck?: { readonly path: string; readonly interval?: string | number }
}

export interface HeaderRulesData {
  readonly set?: Readonly<Record<string, string>>
  readonly remove?: readonly string[]
}

export interface RouteData {
  readonly path: string
  readonly upstream?: string
  readonly external?: boolean
  readonly methods?: readonly string[]
  readonly roles?: readonly string[]
  readonly public?: boolean
  readonly requireAssigned?: boolean
  readonly forwardToken?: boolean
  readonly browser?: boolean
  readonly basic?: boolean
  readonly stripPrefix?: string
  readonly rateLimit?: { readonly max: number; readonly window: string; readonly by?: 'ip' | 'user' | 'both' }
  readonly timeout?: string | number
  readonly maxBody?: string | number
  readonly allowInPath?: readonly PathException[]
  readonly websocket?: WebSocketData
  readonly socketio?: SocketIoData
}

export interface GrantData {
  readonly group?: string
  readonly claim?: string
  readonly tenant?: string
  readonly profiles?: readonly string[]
  readonly areas?: readonly string[]
}

export interface WebSocketData {
  readonly origins?: readonly string[]
  readonly tokenInQuery?: boolean
  readonly maxMessage?: string | number
  readonly idleTimeout?: string | number
  readonly maxLifetime?: string | number
  readonly messagesPerSecond?: number
}

export interface SocketIoData {
  readonly namespaces: Readonly<
    Record<
      string,
      {
        readonly roles?: readonly string[]
        readonly events?: Readonly<Record<string, { readonly roles?: readonly string[] }>>
      }
    >
  >
  readonly maxMessage?: string | number
  readonly messagesPerSecond?: number
}

type Schema = Readonly<Record<string, unknown>>

// `title` completes the sentence `"key" must be …` in complaints.
const duration = (description: string, example: string, fallback?: string): Schema => ({
  ...(fallback === undefined ? {} : { default: fallback }),
  title: 'a duration such as 500ms, 30s or 2m',
  description,
  examples: [example],
  type: 'string',
  pattern: DURATION_PATTERN
})

const durationOrZero = (description: string, example: string, fallback: string): Schema => ({
  ...duration(description, example, fallback),
  title: 'a duration such as 30s or 5m, or 0',
  type: ['string', 'integer'],
  pattern: DURATION_OR_ZERO_PATTERN,
  minimum: 0,
  maximum: 0
})

const size = (description: string, example: string, fallback?: string): Schema => ({
  ...(fallback === undefined ? {} : { default: fallback }),
  title: 'a size such as 512KB or 10MB, or a number of bytes',
  description,
  examples: [example],
  type: ['string', 'integer'],
  pattern: SIZE_PATTERN,
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER
})

const flag = (description: string): Schema => ({
  title: 'true or false',
  description,
  type: 'boolean',
  default: false,
  examples: [true]
})

const text = (title: string, description: string, example: string, more: Schema = {}): Schema => ({
  title,
  description,
  examples: [example],
  type: 'string',
  minLength: 1,
  ...more
})

const messageRate = (description: string, more: Schema = {}): Schema => ({
  title: 'a number of messages from 1 to 20000',
  description,
  examples: [100],
  type: 'integer',
  minimum: 1,
  maximum: 20_000,
  ...more
})

const record = (title: string, description: string, properties: Schema, more: Schema = {}): Schema => ({
  title,
  description,
  type: 'object',
  additionalProperties: false,
  properties,
  ...more
})

const list = (title: string, description: string, items: Schema, examples: unknown[], more: Schema = {}): Schema => ({
  title,
  description,
  examples: [examples],
  type: 'array',
  items,
  uniqueItems: true,
  minItems: 1,
  ...more
})

const target = (example: string): Schema =>
  text(
    'an address such as http://127.0.0.1:4001',
    'Address of the backend: http://HOST[:PORT], https://HOST[:PORT] or unix:/path/to.sock.',
    example
  )

const roles = list(
  'a list of roles',
  'Any one of these roles is enough. Without this key any valid token passes.',
  text('the name of a profile', 'Admin, Supervisor, Agente, or one named under profiles.', 'Supervisor'),
  ['Admin', 'Supervisor']
)

const headerName = {
  title: 'a header name',
  // RFC 9110 §5.6.2
  pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"
}

const headerRules = (description: string, example: Schema, removed: string): Schema =>
  record(
    'a map with set and remove',
    description,
    {
      set: {
        title: 'a map of header names to values',
        description: 'In place of every header of such a name, in any spelling.',
        examples: [example],
        type: 'object',
        minProperties: 1,
        propertyNames: headerName,
        // RFC 9110 §5.5; one line of printable ASCII.
        additionalProperties: {
          title: 'one line of printable ASCII without blanks at its ends',
          type: 'string',
          pattern: '^(?:[\\x21-\\x7e](?:[\\x20-\\x7e\\t]*[\\x21-\\x7e])?)?$',
          maxLength: 4096
        }
      },
      remove: list(
        'a list of header names',
        'Names that do not pass, in any spelling.',
        { type: 'string', ...headerName },
        [removed]
      )
    },
    { minProperties: 1, examples: [{ set: example, remove: [removed] }] }
  )

const upstream = record('an upstream', 'A backend, or several interchangeable ones.', {
  url: target('http://127.0.0.1:4001'),
  targets: list('a list of addresses', 'Interchangeable backends, instead of url.', target('http://10.0.0.1:4001'), [
    'http://10.0.0.1:4001',
    'http://10.0.0.2:4001'
  ]),
  timeout: duration('How long the backend may take to begin its answer.', '30s', '30s'),
  idleTimeout: duration('How long the backend may be silent within an answer; event streams are exempt.', '10m', '5m'),
  connectTimeout: duration('How long connecting may take.', '2s', '2s'),
  caFile: text('the name of a PEM file', 'Certificates to trust for https, beside this file.', './internal-ca.pem'),
  clientCertFile: text(
    'the name of a PEM file',
    'Certificate, with its chain, that the gateway shows to the backend.',
    './gateway.crt'
  ),
  clientKeyFile: text('the name of a PEM file', 'Private key of clientCertFile, not encrypted.', './gateway.key'),
  serverName: text(
    'a host name',
    'Name asked for in the TLS handshake and looked for in the certificate, instead of the host of the address.',
    'orders.internal',
    { pattern: '^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})$' }
  ),
  assertion: flag('Sends x-user-assertion: who asks, as a JWT that /auth/jwks.json verifies.'),
  preserveHost: flag('Sends the Host that the client asked for instead of that of the address. Needs PUBLIC_URL.'),
  requestHeaders: headerRules('Changes what the backend receives.', { 'X-Api-Version': '2' }, 'Accept-Language'),
  responseHeaders: headerRules('Changes what clients receive.', { 'X-Frame-Options': 'DENY' }, 'Server'),
  identityHeaders: {
    title: 'a map of header names to what they carry',
    description: "Further headers with the person's identity, under the names that the backend expects.",
    examples: [{ 'X-WEBAUTH-USER': 'login' }],
    type: 'object',
    minProperties: 1,
    propertyNames: headerName,
    additionalProperties: {
      title: `one of ${IDENTITY_ATTRIBUTES.join(', ')}`,
      description: 'login is provider:username, which is one person.',
      enum: IDENTITY_ATTRIBUTES
    }
  },
  sharedCache: flag(
    'Lets shared caches keep answers of private routes that the backend marks as public; without it they become private.'
  ),
  identityHeadersShared: flag(
    'Allows username or email alone in identityHeaders, although the same name may be two people.'
  ),
  healthCheck: record(
    'a health check',
    'Asks each target regularly; those that fail are passed over.',
    {
      path: text('a path that begins with /', 'What to GET.', '/healthz', { pattern: '^/[\\x21-\\x7e]*$' }),
      interval: duration('How often.', '10s', '10s')
    },
    { required: ['path'], examples: [{ path: '/healthz', interval: '10s' }] }
  )
})

const websocket = record(
  'a map of WebSocket settings; {} for the defaults',
  'Lets WebSocket upgrades through.',
  {
    origins: list(
      'a list of origins',
      'Origins of browsers that may connect, added to PUBLIC_URL and FRONTEND_URL.',
      text('an origin such as https://app.example.org', 'Scheme, host and port.', 'https://app.example.org'),
      ['https://app.example.org'],
      { minItems: 0 }
    ),
    tokenInQuery: flag('Takes the token from the query parameter access_token too.'),
    maxMessage: size('Largest message in either direction.', '1MB', '1MB'),
    idleTimeout: durationOrZero('Ends a connection without any frame for so long; 0: never.', '1h', '5m'),
    maxLifetime: durationOrZero('Ends a connection after so long; 0: when its token expires.', '8h', '0'),
    messagesPerSecond: messageRate(
      'Messages of one client within a second; one more ends its connection (close code 1008). Without this key only frames are limited: 20,000 a second.'
    )
  },
  { examples: [{}, { origins: ['https://app.example.org'] }] }
)

const events: Schema = {
  title: 'a map of events',
  description:
    'Events that clients may send, by name or by a pattern written /…/. Any other is refused. Without this key all are passed.',
  examples: [{ send: { roles: ['Agente', 'Supervisor'] }, '/typing:.*/': {} }],
  type: 'object',
  additionalProperties: record(
    'a map; {} for everybody in the namespace',
    'Who may send it.',
    { roles },
    { examples: [{}] }
  )
}

const socketio = record(
  'a map of Socket.IO settings',
  'Serves Socket.IO; each namespace is judged when a client connects to it.',
  {
    namespaces: {
      title: 'a map of namespaces',
      description: 'Namespaces that are open, by name or by a pattern written /…/. Any other is closed.',
      examples: [{ '/messaging': { roles: ['Agente', 'Supervisor', 'Admin'] } }],
      type: 'object',
      minProperties: 1,
      additionalProperties: record(
        'a map; {} for any valid token',
        'Who may connect.',
        { roles, events },
        { examples: [{}] }
      )
    },
    maxMessage: size('Largest message in either direction.', '1MB', '1MB'),
    messagesPerSecond: messageRate(
      'Packets of one client within a second, by either transport; one more ends its session.',
      { default: 1000 }
    )
  },
  { required: ['namespaces'], examples: [{ namespaces: { '/messaging': { roles: ['Agente'] } } }] }
)

const rateLimit = record(
  'a rate limit',
  'A limit for this route, beside the global one.',
  {
    max: {
      title: 'a whole number from 1',
      description: 'Requests per window.',
      examples: [20],
      type: 'integer',
      minimum: 1,
      maximum: 1e9
    },
    window: duration('Length of the window.', '1m'),
    by: {
      title: 'ip, user or both',
      description: 'What is counted.',
      default: 'ip',
      examples: ['user'],
      enum: ['ip', 'user', 'both']
    }
  },
  { required: ['max', 'window'], examples: [{ max: 20, window: '1m', by: 'user' }] }
)

const route = record(
  'a route',
  'Which requests go to which backend, and who may send them.',
  {
    path: text(
      'a path that begins with /',
      'Exact, or with :name for one segment, or with /* at the end for everything below (and the path itself).',
      '/api/orders/*'
    ),
    upstream: text('the name of an upstream', 'Where the requests go.', 'orders'),
    methods: list(
      'a list of methods',
      'Only these methods; GET includes HEAD. Without this key: all.',
      { title: 'a method in upper case', type: 'string', pattern: "^[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$" },
      ['GET', 'POST']
    ),
    roles,
    public: flag('Lets everybody through: the token is not judged and no identity is passed on.'),
    requireAssigned: flag('Refuses people without profile and area.'),
    forwardToken: flag('Passes the Authorization header on.'),
    external: flag('Instead of upstream: judged for a proxy in front at /auth/forward, never forwarded.'),
    basic: flag('Accepts an access token (pt_…) as the password of Basic, for git, npm and their kind.'),
    browser: flag('Accepts the session cookie (BROWSER_SESSION) and sends navigations without one to the login page.'),
    stripPrefix: text('a path that begins with /', 'Removed from the path before it is forwarded.', '/api'),
    rateLimit,
    timeout: duration("Instead of the upstream's.", '2m'),
    maxBody: size('Largest request body.', '10MB'),
    allowInPath: list(
      'a list of encodedSlash, semicolon, doubleSlash, extension',
      'What backends need in paths although it can be read in two ways. Both readings must lead to this route; after extension the end of a path (.json) is taken for part of a name.',
      {
        title: 'one of encodedSlash, semicolon, doubleSlash, extension',
        enum: ['encodedSlash', 'semicolon', 'doubleSlash', 'extension']
      },
      ['encodedSlash']
    ),
    websocket,
    socketio
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
  'Gives profiles and areas to the members of a group, beside what an Admin assigned.',
  {
    group: text(
      'the distinguished name of a group',
      'A group of the directory, by its full DN; members of groups within it count.',
      'CN=Suporte,OU=Grupos,DC=corp,DC=example'
    ),
    claim: text(
      'a value of CLOUDIDP_GROUPS_CLAIM',
      'A group or role of the cloud provider, compared exactly; ids or app roles rather than display names.',
      '0f3c7d1e-5a0b-4d2f-9a57-2d1c3b4a5968',
      { maxLength: 512 }
    ),
    tenant: text(
      'the id of a tenant',
      'Only people of this tenant (tid). Needed with the tenants common, organizations and consumers.',
      '72f988bf-86f1-41af-91ab-2d7cd011db47',
      { pattern: '^[\\w.-]{1,128}$' }
    ),
    profiles: list(
      'a list of profiles',
      'What members may do.',
      text('the name of a profile', 'Admin, Supervisor, Agente, or one named under profiles.', 'Agente'),
      ['Agente']
    ),
    areas: list(
      'a list of areas',
      'Where members belong; areas that do not exist are created.',
      text('the name of an area', 'The first one of the first grant is the main area.', 'Suporte'),
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
    'Portaria route file: backends, routes, and tests of the access rules.',
    {
      upstreams: {
        title: 'a map of upstreams',
        description: 'Backends by name; names count for all files of the folder.',
        examples: [{ orders: { url: 'http://127.0.0.1:4001' } }],
        type: 'object',
        propertyNames: { title: 'a name of letters, digits, - _ .', pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' },
        additionalProperties: upstream
      },
      routes: {
        title: 'a list of routes',
        description: 'Private by default; the most specific route wins, whatever the order.',
        examples: [[{ path: '/api/orders/*', upstream: 'orders' }]],
        type: 'array',
        items: route
      },
      profiles: list(
        'a list of profiles',
        'Profiles beyond Admin, Supervisor and Agente; they count for all files of the folder.',
        text('a name of letters, digits, - _ .', 'Admins can assign it, routes and grants can name it.', 'Financeiro', {
          pattern: PROFILE_NAME_PATTERN
        }),
        ['Financeiro', 'Auditor'],
        { minItems: 0 }
      ),
      grants: {
        title: 'a list of grants',
        description: 'What members of groups get, at each login and whenever this file changes.',
        examples: [[{ group: 'CN=Suporte,OU=Grupos,DC=corp,DC=example', profiles: ['Agente'], areas: ['Suporte'] }]],
        type: 'array',
        items: grant
      },
      tests: {
        title: 'a list of test lines',
        description:
          'METHOD PATH as WHO -> OUTCOME, or EVENT NAMESPACE NAME as WHO -> OUTCOME for an event of Socket.IO; WHO is anonymous, unassigned, roles joined by + or group:"DN", OUTCOME is allow or a status.',
        examples: [
          [
            'DELETE /api/orders/7 as Supervisor -> 403',
            'GET /api/orders/7 as Agente+Supervisor -> allow',
            'EVENT /messaging send as Agente -> allow'
          ]
        ],
        type: 'array',
        items: text('a test line', 'METHOD PATH as WHO -> OUTCOME', 'GET /api/orders/7 as anonymous -> 401')
      }
    }
  )
}
