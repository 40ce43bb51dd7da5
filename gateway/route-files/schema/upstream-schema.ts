// Describes the form of an upstream in a route file, and its defaults.
import { IDENTITY_ATTRIBUTES } from '../../routes/upstream.ts'
import {
  type Accepted,
  count,
  duration,
  flag,
  type Keywords,
  list,
  mapOf,
  record,
  type Schema,
  size,
  text,
  word
} from './forms.ts'

/** What an upstream does where its entry says nothing, as written in a route file. */
export const DEFAULTS = {
  timeout: '30s',
  idleTimeout: '5m',
  connectTimeout: '2s',
  requestBuffer: '64KB',
  healthCheck: { interval: '10s', timeout: '5s', status: '200-399', rise: 1, fall: 2 },
  outlier: { errors: 5, for: '10s' },
  queue: { max: 1024, timeout: '10s' }
} as const

const target = (example: string) =>
  text(
    'an address such as http://127.0.0.1:4001',
    'Address of the backend: http://HOST[:PORT], https://HOST[:PORT] or unix:/path/to.sock.',
    example
  )

const headerName: Schema<string> = {
  title: 'a header name',
  type: 'string',
  // RFC 9110 §5.6.2
  pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"
}

// RFC 9110 §5.5; one line of printable ASCII.
const headerValue: Schema<string> = {
  title: 'one line of printable ASCII without spaces at its ends',
  type: 'string',
  pattern: '^(?:[\\x21-\\x7e](?:[\\x20-\\x7e\\t]*[\\x21-\\x7e])?)?$',
  maxLength: 4096
}

const headerRules = (description: string, example: Keywords, removed: string) =>
  record(
    'a map with set and remove',
    description,
    {
      set: mapOf(
        'a map of header names to values',
        'Headers to set. They replace every header of the same name, in any spelling.',
        headerValue,
        example,
        { minProperties: 1, propertyNames: headerName }
      ),
      remove: list('a list of header names', 'Names of headers to remove, in any spelling.', headerName, [removed])
    },
    { minProperties: 1, examples: [{ set: example, remove: [removed] }] }
  )

const targetEntry: Schema<string | { readonly url: string; readonly backup?: boolean }> = {
  title: 'an address, or a map with url and backup',
  examples: ['http://10.0.0.1:4001', { url: 'http://10.0.0.2:4001', backup: true }],
  type: ['string', 'object'],
  minLength: 1,
  required: ['url'],
  additionalProperties: false,
  properties: {
    url: target('http://10.0.0.2:4001'),
    backup: flag('Receives requests only while no other target is in service.')
  }
}

const healthyStatus: Schema<string | number> = {
  title: 'a status such as 200, or a range such as 200-299',
  description: 'Statuses that mean healthy.',
  default: DEFAULTS.healthCheck.status,
  examples: [200, '200-299'],
  type: ['integer', 'string'],
  minimum: 200,
  maximum: 599,
  pattern: '^[2-5][0-9]{2}(-[2-5][0-9]{2})?$'
}

export const upstreamSchema = record(
  'an upstream',
  'A backend, or several interchangeable ones.',
  {
    url: target('http://127.0.0.1:4001'),
    targets: list(
      'a list of addresses',
      'Addresses of several interchangeable backends; either this or url is required.',
      targetEntry,
      ['http://10.0.0.1:4001', 'http://10.0.0.2:4001'],
      // Two that are written differently may be the same, so defineTargets compares them.
      { uniqueItems: false }
    ),
    timeout: duration('Time that the backend may take to begin its response.', '30s', DEFAULTS.timeout),
    idleTimeout: duration(
      'Time that the backend may be silent in the middle of a response; event streams are exempt.',
      '10m',
      DEFAULTS.idleTimeout
    ),
    connectTimeout: duration('Time that establishing a connection may take.', '2s', DEFAULTS.connectTimeout),
    requestBuffer: size(
      'What is buffered of a request body before a connection is used for it; bodies that are complete before need none of it until then.',
      '1MB',
      DEFAULTS.requestBuffer
    ),
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
    identityHeaders: mapOf(
      'a map of header names to what they carry',
      "Further headers that carry the person's identity, under the names that the backend expects.",
      word(IDENTITY_ATTRIBUTES, { description: 'login is provider:username, which identifies one person.' }),
      { 'X-WEBAUTH-USER': 'login' },
      { minProperties: 1, propertyNames: headerName }
    ),
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
        interval: duration('Interval between two checks of a target.', '10s', DEFAULTS.healthCheck.interval),
        timeout: duration('Time in which a check must be answered.', '2s', DEFAULTS.healthCheck.timeout),
        status: healthyStatus,
        host: text(
          'a host such as app.example.org or app.example.org:8080',
          'Host header of the checks, instead of the one that requests carry: the host of the address or, with preserveHost, of PUBLIC_URL.',
          'app.example.org',
          { pattern: '^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\\[[0-9A-Fa-f:.]+\\])(?::[0-9]{1,5})?$' }
        ),
        rise: count('Checks in a row that must pass before a target that is down receives requests.', 2, {
          default: DEFAULTS.healthCheck.rise,
          maximum: 100
        }),
        fall: count('Checks in a row that must fail before a target receives no more requests.', 3, {
          default: DEFAULTS.healthCheck.fall,
          maximum: 100
        })
      },
      { required: ['path'], examples: [{ path: '/healthz', interval: '10s' }] }
    ),
    outlier: record(
      'a map with errors and for',
      'Rests a target that answers 502, 503 or 504, or fails, several times in a row, unless no other target is in service.',
      {
        errors: count('Errors in a row after which a target rests; 0: never.', 5, {
          title: 'a whole number from 0',
          default: DEFAULTS.outlier.errors,
          minimum: 0,
          maximum: 1_000_000
        }),
        for: duration('Time for which it rests.', '30s', DEFAULTS.outlier.for)
      },
      { minProperties: 1, examples: [{ errors: 5, for: '30s' }] }
    ),
    maxConnections: count(
      'Maximum number of connections to each target, counted in each process of the gateway: requests, streams and sockets together. Requests beyond it wait in the queue.',
      100,
      { maximum: 1_000_000 }
    ),
    queue: record(
      'a map with max and timeout',
      'Requests that wait while all targets have reached maxConnections; sockets do not wait. Whatever waits longer, or does not fit, is answered with 503.',
      {
        max: count('Requests that may wait; 0: none.', 1000, {
          title: 'a whole number from 0',
          default: DEFAULTS.queue.max,
          minimum: 0,
          maximum: 1_000_000
        }),
        timeout: duration('Time that a request may wait.', '5s', DEFAULTS.queue.timeout)
      },
      { minProperties: 1, examples: [{ max: 1000, timeout: '5s' }] }
    )
  },
  { examples: [{ url: 'http://127.0.0.1:4001' }] }
)

export type UpstreamData = Accepted<typeof upstreamSchema>
export type HeaderRulesData = NonNullable<UpstreamData['requestHeaders']>
