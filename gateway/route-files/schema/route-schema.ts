// Describes the form of a route in a route file.
import { type PathException, ROUTE_FLAGS, type RouteFlags } from '../../routes/route.ts'
import { duration, flag, list, record, roles, size, text } from './forms.ts'
import { type SocketIoData, socketioSchema, type WebSocketData, websocketSchema } from './socket-schemas.ts'

export interface RouteData extends Partial<RouteFlags> {
  readonly path: string
  readonly upstream?: string
  readonly methods?: readonly string[]
  readonly roles?: readonly string[]
  readonly stripPrefix?: string
  readonly rateLimit?: { readonly max: number; readonly window: string; readonly by?: 'ip' | 'user' | 'both' }
  readonly timeout?: string | number
  readonly maxBody?: string | number
  readonly allowInPath?: readonly PathException[]
  readonly websocket?: WebSocketData
  readonly socketio?: SocketIoData
}

const rateLimit = record(
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

const FLAGS = Object.fromEntries(Object.entries(ROUTE_FLAGS).map(([name, says]) => [name, flag(says)]))

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
      'Methods to match; GET includes HEAD. Without this key, all methods match.',
      { title: 'a method in upper case', type: 'string', pattern: "^[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$" },
      ['GET', 'POST']
    ),
    roles,
    ...FLAGS,
    stripPrefix: text(
      'a path that begins with /',
      'Prefix that is removed from the path before the request is forwarded.',
      '/api'
    ),
    rateLimit,
    timeout: duration('Timeout of this route, instead of the one of its upstream.', '2m'),
    maxBody: size('Maximum size of a request body.', '10MB'),
    allowInPath: list(
      'a list of encodedSlash, semicolon, doubleSlash, extension',
      'Ambiguous forms that the backend needs in paths. Both readings must lead to this route. With extension, the extension of the last segment (.json) is taken as part of its name.',
      {
        title: 'one of encodedSlash, semicolon, doubleSlash, extension',
        enum: ['encodedSlash', 'semicolon', 'doubleSlash', 'extension']
      },
      ['encodedSlash']
    ),
    websocket: websocketSchema,
    socketio: socketioSchema
  },
  {
    required: ['path'],
    if: { required: ['external'], properties: { external: { const: true } } },
    else: { title: 'a route', required: ['upstream'] },
    examples: [{ path: '/api/orders/*', upstream: 'orders', roles: ['Admin'] }]
  }
)
