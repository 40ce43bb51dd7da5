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
  'Allows WebSocket upgrades.',
  {
    origins: list(
      'a list of origins',
      'Origins whose pages may connect, in addition to those of PUBLIC_URL and FRONTEND_URL.',
      text('an origin such as https://app.example.org', 'Scheme, host and port.', 'https://app.example.org'),
      ['https://app.example.org'],
      { minItems: 0 }
    ),
    tokenInQuery: flag('Also accepts the token in the query parameter access_token.'),
    maxMessage: size('Maximum size of a message in either direction.', '1MB', '1MB'),
    idleTimeout: durationOrZero('Time without any frame after which the connection is closed; 0: never.', '5m', '1h'),
    maxLifetime: durationOrZero('Time after which the connection is closed; 0: when its token expires.', '8h', '0'),
    messagesPerSecond: messageRate(
      'Messages that a client may send per second; one more closes the connection with code 1008. Without this key, only frames are limited, to 20,000 per second.'
    )
  },
  { examples: [{}, { origins: ['https://app.example.org'] }] }
)

const events: Schema = {
  title: 'a map of events',
  description:
    'Events that clients may send, by name or by a pattern written as /…/. All others are refused. Without this key, all events are allowed.',
  examples: [{ send: { roles: ['Agente', 'Supervisor'] }, '/typing:.*/': {} }],
  type: 'object',
  additionalProperties: record(
    'a map; {} for everyone in the namespace',
    'Roles that may send the event.',
    { roles },
    { examples: [{}] }
  )
}

export const socketioSchema = record(
  'a map of Socket.IO settings',
  'Serves Socket.IO. Access is checked when a client connects to a namespace.',
  {
    namespaces: {
      title: 'a map of namespaces',
      description:
        'Namespaces that clients may connect to, by name or by a pattern written as /…/. All others are closed.',
      examples: [{ '/messaging': { roles: ['Agente', 'Supervisor', 'Admin'] } }],
      type: 'object',
      minProperties: 1,
      additionalProperties: record(
        'a map; {} for any valid token',
        'Roles that may connect, and the events that clients may send.',
        { roles, events },
        { examples: [{}] }
      )
    },
    maxMessage: size('Maximum size of a message in either direction.', '1MB', '1MB'),
    messagesPerSecond: messageRate(
      'Packets that a client may send per second, over either transport; one more ends its session.',
      { default: 1000 }
    )
  },
  { required: ['namespaces'], examples: [{ namespaces: { '/messaging': { roles: ['Agente'] } } }] }
)
