// Describes the form of the WebSocket and Socket.IO settings of a route.
import { durationOrZero, flag, list, messageRate, record, roles, type Schema, size, text } from './forms.ts'

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

export const websocketSchema = record(
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

export const socketioSchema = record(
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
