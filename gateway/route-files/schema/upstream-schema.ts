// Describes the form of an upstream in a route file.
import { IDENTITY_ATTRIBUTES, type IdentityHeader } from '../../routes/upstream.ts'
import { duration, flag, list, record, type Schema, text } from './forms.ts'

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

const target = (example: string): Schema =>
  text(
    'an address such as http://127.0.0.1:4001',
    'Address of the backend: http://HOST[:PORT], https://HOST[:PORT] or unix:/path/to.sock.',
    example
  )

const headerName = {
  title: 'a header name',
  // RFC 9110 §5.6.2
  pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"
}

export const HEADER_RULES = 'a map with set and remove'

const headerRules = (description: string, example: Schema, removed: string): Schema =>
  record(
    HEADER_RULES,
    description,
    {
      set: {
        title: 'a map of header names to values',
        description: 'Headers to set. They replace every header of the same name, in any spelling.',
        examples: [example],
        type: 'object',
        minProperties: 1,
        propertyNames: headerName,
        // RFC 9110 §5.5; one line of printable ASCII.
        additionalProperties: {
          title: 'one line of printable ASCII without spaces at its ends',
          type: 'string',
          pattern: '^(?:[\\x21-\\x7e](?:[\\x20-\\x7e\\t]*[\\x21-\\x7e])?)?$',
          maxLength: 4096
        }
      },
      remove: list(
        'a list of header names',
        'Names of headers to remove, in any spelling.',
        { type: 'string', ...headerName },
        [removed]
      )
    },
    { minProperties: 1, examples: [{ set: example, remove: [removed] }] }
  )

export const upstreamSchema = record(
  'an upstream',
  'A backend, or several interchangeable ones.',
  {
    url: target('http://127.0.0.1:4001'),
    targets: list(
      'a list of addresses',
      'Addresses of several interchangeable backends; either this or url is required.',
      target('http://10.0.0.1:4001'),
      ['http://10.0.0.1:4001', 'http://10.0.0.2:4001']
    ),
    timeout: duration('Time that the backend may take to begin its response.', '30s', '30s'),
    idleTimeout: duration(
      'Time that the backend may be silent in the middle of a response; event streams are exempt.',
      '10m',
      '5m'
    ),
    connectTimeout: duration('Time that establishing a connection may take.', '2s', '2s'),
    caFile: text(
      'the name of a PEM file',
      'CA certificates to trust for https; the path is relative to this file.',
      './internal-ca.pem'
    ),
    clientCertFile: text(
      'the name of a PEM file',
      'Client certificate, with its chain, that the gateway presents to the backend.',
      './gateway.crt'
    ),
    clientKeyFile: text('the name of a PEM file', 'Private key of clientCertFile, unencrypted.', './gateway.key'),
    serverName: text(
      'a host name',
      'Host name for SNI and for the verification of the certificate, instead of the host of the address.',
      'orders.internal',
      { pattern: '^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})$' }
    ),
    assertion: flag(
      'Sends x-user-assertion: the identity of the person, as a JWT that is verified with /auth/jwks.json.'
    ),
    preserveHost: flag('Sends the Host of the request instead of the host of the address. Requires PUBLIC_URL.'),
    requestHeaders: headerRules(
      'Changes to the request headers that the backend receives.',
      { 'X-Api-Version': '2' },
      'Accept-Language'
    ),
    responseHeaders: headerRules(
      'Changes to the response headers that clients receive.',
      { 'X-Frame-Options': 'DENY' },
      'Server'
    ),
    identityHeaders: {
      title: 'a map of header names to what they carry',
      description: "Further headers that carry the person's identity, under the names that the backend expects.",
      examples: [{ 'X-WEBAUTH-USER': 'login' }],
      type: 'object',
      minProperties: 1,
      propertyNames: headerName,
      additionalProperties: {
        title: `one of ${IDENTITY_ATTRIBUTES.join(', ')}`,
        description: 'login is provider:username, which identifies one person.',
        enum: IDENTITY_ATTRIBUTES
      }
    },
    sharedCache: flag(
      'Keeps Cache-Control: public in responses of private routes, so that shared caches may store them; otherwise public is changed to private.'
    ),
    identityHeadersShared: flag(
      'Allows username or email alone in identityHeaders, although two people may have the same one.'
    ),
    healthCheck: record(
      'a health check',
      'Sends a GET request to each target at intervals; targets that fail receive no requests.',
      {
        path: text('a path that begins with /', 'Path to request.', '/healthz', { pattern: '^/[\\x21-\\x7e]*$' }),
        interval: duration('Interval between two checks of a target.', '10s', '10s')
      },
      { required: ['path'], examples: [{ path: '/healthz', interval: '10s' }] }
    )
  },
  { examples: [{ url: 'http://127.0.0.1:4001' }] }
)
