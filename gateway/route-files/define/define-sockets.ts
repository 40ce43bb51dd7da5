// Describes and reads the WebSocket and Socket.IO settings of a route: origins, and names or patterns that cannot be made slow.
import type { SocketIoEvent, SocketIoNamespace, SocketIoOptions, WebSocketOptions } from '../../routes/route.ts'
import { isPlainNamespace, isReservedEvent } from '../../routes/socketio-rules.ts'
import { profileName } from '../../values/names.ts'
import { parseSize } from '../../values/quantities.ts'
import { isAppOrigin } from '../../values/urls.ts'
import type { Complain } from '../complaint.ts'
import {
  type Accepted,
  defineTimer,
  durationOrZero,
  flag,
  list,
  mapOf,
  messageRate,
  record,
  roles,
  size,
  text
} from '../schema/forms.ts'

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

const events = mapOf(
  'a map of events',
  'Events that clients may send, by name or by a pattern written as /…/, which must match the whole name. All others are refused. Without this key, all events are allowed.',
  record('a map; {} for everyone in the namespace', 'Roles that may send the event.', { roles }, { examples: [{}] }),
  { send: { roles: ['Agente', 'Supervisor'] }, '/typing:.*/': {} }
)

export const socketioSchema = record(
  'a map of Socket.IO settings',
  'Serves Socket.IO. Access is checked when a client connects to a namespace.',
  {
    namespaces: mapOf(
      'a map of namespaces',
      'Namespaces that clients may connect to, by name or by a pattern written as /…/, which must match the whole name. All others are closed.',
      record(
        'a map; {} for any valid token',
        'Roles that may connect, and the events that clients may send.',
        { roles, events },
        { examples: [{}] }
      ),
      { '/messaging': { roles: ['Agente', 'Supervisor', 'Admin'] } },
      { minProperties: 1 }
    ),
    maxMessage: size('Maximum size of a message in either direction.', '1MB', '1MB'),
    messagesPerSecond: messageRate(
      'Packets that a client may send per second, over either transport; one more ends its session.',
      { default: 1000 }
    )
  },
  { required: ['namespaces'], examples: [{ namespaces: { '/messaging': { roles: ['Agente'] } } }] }
)

type SocketIoData = Accepted<typeof socketioSchema>
type NamespaceData = SocketIoData['namespaces'][string]

/** `data` has passed the schema. */
export const defineSocketIo = (data: SocketIoData, say: Complain): SocketIoOptions => ({
  namespaces: Object.entries(data.namespaces).map(([name, rule]) => defineNamespace(name, rule, say)),
  maxMessageBytes: parseSize(data.maxMessage ?? '1MB'),
  messagesPerSecond: data.messagesPerSecond ?? 1000
})

const defineNamespace = (name: string, { roles, events }: NamespaceData, say: Complain): SocketIoNamespace => {
  const place = ['socketio', 'namespaces', name]
  return {
    name,
    pattern: definePattern(name, checkNamespace, checkNamespacePattern, message => say(message, ...place)),
    roles: roles?.map(profileName),
    events:
      events &&
      Object.entries(events).map(
        ([event, rule]): SocketIoEvent => ({
          name: event,
          pattern: definePattern(event, checkEvent, checkPattern, message => say(message, ...place, 'events', event)),
          roles: rule.roles?.map(profileName)
        })
      )
  }
}

/** The pattern in a name written as `/regex/`; undefined: a plain name. */
const definePattern = (
  name: string,
  checkName: (name: string) => string | undefined,
  checkSource: (source: string) => string | undefined,
  say: (message: string) => void
): RegExp | undefined => {
  const source = name.length > 2 ? /^\/(.*)\/$/s.exec(name)?.[1] : undefined
  const complaint = source === undefined ? checkName(name) : checkSource(source)
  if (complaint !== undefined) say(complaint)
  return source === undefined || complaint !== undefined ? undefined : compile(source)
}

/** A pattern that is tied to one end of a name was meant for all names that begin, or end, like that. */
export const warnOfPatterns = ({ namespaces }: SocketIoData, warn: Complain): void => {
  const check = (name: string, ...place: string[]) => {
    const meant = widened(/^\/(.+)\/$/s.exec(name)?.[1] ?? '')
    if (meant === undefined) return
    const advice = `for all names that begin or end like this, write '/${meant}/'`
    warn(`this pattern must match the whole name; ${advice}`, 'socketio', 'namespaces', ...place)
  }
  for (const [namespace, { events = {} }] of Object.entries(namespaces)) {
    check(namespace, namespace)
    for (const event of Object.keys(events)) check(event, namespace, 'events', event)
  }
}

const widened = (source: string): string | undefined => {
  // Each of several alternatives would need an end of its own.
  if (source.includes('|')) return undefined
  if (source.startsWith('^') && !/[$*+?}]$/.test(source)) return `${source}.*`
  return /(?<!\\)\$$/.test(source) && !/^(?:\^|\.[*+])/.test(source) ? `.*${source}` : undefined
}

const checkNamespace = (name: string): string | undefined =>
  isPlainNamespace(name) && name.length <= 200
    ? undefined
    : `a namespace must begin with / and must not contain a space, comma, ?, #, quote or bracket${/^[\w-]{1,60}$/.test(name) ? `; write /${name}` : ''}`

const checkEvent = (name: string): string | undefined => {
  if (!/^[^\p{Cc}]{1,200}$/u.test(name)) return 'the name of an event must have 1 to 200 characters'
  return isReservedEvent(name)
    ? `no client may send the event "${name}": it has a special meaning for servers`
    : undefined
}

/** Ways in which a pattern may match one text, of which a failing match tries all; repetitions are counted apart. */
const MAX_WAYS = 64

// A repeated group, many repetitions in a row, or many choices in a row can take exponential or high polynomial time (ReDoS).
// What is left takes at most MAX_WAYS times the square of a name's length, and names are short (MAX_MATCHED_NAME).
const checkPattern = (source: string): string | undefined => {
  if (source.length > 200) return 'a pattern must be at most 200 characters long'
  const plain = source.replace(/\\[^1-9k]/g, 'x').replace(/\[[^\]]*\]/g, 'x')
  if (/\\|\(\?[=!<]/.test(plain)) return 'a pattern must not use backreferences or lookaround'
  if (/\)[*+{?]/.test(plain)) return 'a pattern must not repeat a group'
  if ((plain.match(/[*+]|\{[0-9]+,/g) ?? []).length > 2) return 'a pattern must not contain more than two repetitions'
  if (waysOf(plain.replaceAll('(?:', '(')) > MAX_WAYS)
    return `a pattern must not offer more than ${MAX_WAYS} combinations of its choices (| and ?)`
  return compile(source) === undefined ? 'this is not a valid regular expression' : undefined
}

/** At most: the choices of each group, and whether each optional character is there, multiplied. */
const waysOf = (plain: string): number => {
  let ways = 1
  const choices = [1]
  for (const character of plain) {
    if (character === '(') choices.push(1)
    else if (character === '|') choices.push((choices.pop() ?? 1) + 1)
    else if (character === ')') ways *= choices.pop() ?? 1
    else if (character === '?') ways *= 2
  }
  return choices.reduce((product, count) => product * count, ways)
}

const checkNamespacePattern = (source: string): string | undefined => {
  const complaint = checkPattern(source)
  // What the pattern, or each of its choices, begins with begins no namespace.
  const isNever = source.split('|').every(choice => {
    const [, first] = /^[\^(?:]*([\w-]|\\[dw]|\[(?:\\.|[^\\\]])+\])(?![*?{])/.exec(choice) ?? []
    return first !== undefined && compile(first)?.test('/') === false
  })
  if (complaint !== undefined || !isNever) return complaint
  const meant = source.replace(/(?:^|\|)[\^(?:]*/g, start => `${start}\\/`)
  return `no namespace matches this pattern, because namespaces begin with /; write ${/^[\w-]+$/.test(source) ? `/${source} for the namespace, or ` : ''}'/${meant}/' for a pattern`
}

// Anchored at both ends, because a pattern must match the whole name.
const compile = (source: string): RegExp | undefined => {
  try {
    return new RegExp(`^(?:${source})$`, 'u')
  } catch {
    return undefined
  }
}

/** `data` has passed the schema. */
export const defineWebSocket = (data: Accepted<typeof websocketSchema>, say: Complain): WebSocketOptions => {
  for (const [index, origin] of (data.origins ?? []).entries()) {
    const isOrigin = /^https?:/.test(origin) && URL.parse(origin)?.origin === origin
    if (!isOrigin && !isAppOrigin(origin))
      say(
        `an origin must be scheme, host and port, as in https://app.example.org${originHint(origin)}`,
        'websocket',
        'origins',
        index
      )
  }
  return {
    origins: data.origins ?? [],
    tokenInQuery: data.tokenInQuery ?? false,
    maxMessageBytes: parseSize(data.maxMessage ?? '1MB'),
    messagesPerSecond: data.messagesPerSecond ?? 0,
    idleTimeoutMs: defineTimer(data.idleTimeout ?? '1h', say, 'websocket', 'idleTimeout'),
    maxLifetimeMs: defineTimer(data.maxLifetime ?? 0, say, 'websocket', 'maxLifetime')
  }
}

const originHint = (written: string): string => {
  if (written.includes('*')) return '; there are no wildcards: list each origin'
  if (/^[\w-]+(?:\.[\w-]+)+(?::\d+)?$/.test(written)) return `; write https://${written}`
  const url = /^https?:\/\/[^/@]+\//.test(written) && URL.canParse(written) ? new URL(written) : undefined
  return url === undefined ? '' : `; write ${url.origin}`
}
