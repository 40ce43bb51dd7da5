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

const FLAGS = Object.fromEntries(Object.entries(ROUTE_FLAGS).map(([name, says]) => [name, flag(says)]))

export const routeSchema = record(
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
    ...FLAGS,
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
