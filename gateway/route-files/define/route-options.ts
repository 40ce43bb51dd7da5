// Lists the options of a route that have a value: how each is written, how it is validated, and what the route stores.
import type { AcceptedWarning, PathException, Route, RouteRateLimit, WrittenRoute } from '../../routes/route.ts'
import { type Network, parseNetwork } from '../../values/addresses.ts'
import { parseSize } from '../../values/quantities.ts'
import type { Complain } from '../complaint.ts'
import { defineTimer, duration, list, record, type Schema, size, text } from '../schema/forms.ts'
import { appSchema, defineApp } from './define-app.ts'
import { defineHosts, hostsSchema } from './define-hosts.ts'
import { defineSocketIo, defineWebSocket, socketioSchema, websocketSchema } from './define-sockets.ts'

interface RateLimitData {
  readonly max: number
  readonly window: string
  readonly by?: RouteRateLimit['by']
}

const RATE_LIMIT = record(
  'a rate limit',
  'Rate limit of this route, in addition to the global one.',
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
      description: 'Whether requests are counted per client address (ip), per person (user) or both.',
      default: 'ip',
      examples: ['user'],
      enum: ['ip', 'user', 'both']
    }
  },
  { required: ['max', 'window'], examples: [{ max: 20, window: '1m', by: 'user' }] }
)

const ALLOW_IN_PATH = list(
  'a list of encodedSlash, semicolon, doubleSlash, extension',
  'Ambiguous forms that the backend needs in paths. Both readings must lead to this route. With extension, the extension of the last segment (.json) and a script on the way (index.php/…) are taken as parts of names.',
  {
    title: 'one of encodedSlash, semicolon, doubleSlash, extension',
    enum: ['encodedSlash', 'semicolon', 'doubleSlash', 'extension']
  },
  ['encodedSlash']
)

const FROM = list(
  'a list of networks',
  'Networks from which clients may come. Any other client is refused (403), logged in or not. It restricts a route, and replaces no login.',
  text('an IP address or a CIDR block', 'Network of clients.', '10.0.0.0/8'),
  ['10.0.0.0/8', '2001:db8::/32']
)

const ACCEPT = list(
  'a list of wider-methods, wider-paths',
  'Warnings of `portaria check` that are intended: a less strict route serves the methods, or the paths below, that this route leaves to it.',
  { title: 'one of wider-methods, wider-paths', enum: ['wider-methods', 'wider-paths'] },
  ['wider-methods']
)

const option = <Field extends keyof Route, Written>(
  field: Field,
  schema: Schema,
  define: (written: Written, say: Complain) => Route[Field]
) => ({ field, schema, define })

function defineNetworks(written: readonly string[], say: Complain): readonly Network[] {
  return written.flatMap((text, index) => {
    const network = parseNetwork(text)
    if (network === undefined)
      say(`"${text}" is neither an IP address nor a CIDR block such as 10.0.0.0/8`, 'from', index)
    return network ?? []
  })
}

/** By their keys in the files. A new one needs an entry here, its field and default in `Route`, and the step that obeys it. */
export const ROUTE_OPTIONS = {
  host: option('host', hostsSchema, defineHosts),
  rateLimit: option('rateLimit', RATE_LIMIT, ({ max, window, by = 'ip' }: RateLimitData, say) => ({
    max,
    windowMs: defineTimer(window, say, 'rateLimit', 'window'),
    by
  })),
  from: option('from', FROM, defineNetworks),
  timeout: option(
    'timeoutMs',
    duration('Timeout of this route, instead of the one of its upstream.', '2m'),
    (written: string | number, say) => defineTimer(written, say, 'timeout')
  ),
  maxBody: option('maxBodyBytes', size('Maximum size of a request body, instead of MAX_BODY.', '10MB'), parseSize),
  allowInPath: option('allowInPath', ALLOW_IN_PATH, (written: readonly PathException[]) => written),
  accept: option('accept', ACCEPT, (written: readonly AcceptedWarning[]) => written),
  websocket: option('websocket', websocketSchema, defineWebSocket),
  socketio: option('socketio', socketioSchema, defineSocketIo),
  app: option('app', appSchema, defineApp)
}

type Options = typeof ROUTE_OPTIONS

/** As written. */
export type RouteOptionData = { readonly [Name in keyof Options]?: Parameters<Options[Name]['define']>[0] }

/** The fields of the options that are present. `data` has passed the schema. */
export const defineOptions = (data: RouteOptionData, say: Complain): Partial<WrittenRoute> => {
  const fields: Record<string, unknown> = {}
  for (const [name, { field, define }] of Object.entries(ROUTE_OPTIONS)) {
    const written = data[name as keyof Options]
    if (written !== undefined) fields[field] = define(written as never, say)
  }
  return fields
}
