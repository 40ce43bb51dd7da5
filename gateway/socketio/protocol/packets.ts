// Reads Socket.IO packets (protocol revision 5) as far as decisions require: type, namespace, attachments, event name, auth.
import { ownText } from '../../values/bounded-map.ts'
import { readRecord } from '../../values/records.ts'

// In addition to these: 2 EVENT, 3 ACK, 5 BINARY_EVENT.
export const CONNECT = 0
export const DISCONNECT = 1
export const EVENT = 2
export const ACK = 3
export const CONNECT_ERROR = 4
export const BINARY_EVENT = 5
export const BINARY_ACK = 6

export interface SocketIoPacket {
  readonly type: number
  readonly namespace: string
  /** Number of binary messages that follow; 0 unless the type is binary. */
  readonly attachments: number
  /** What follows the namespace: for events and acknowledgements an ack id and a JSON array, for others as received. */
  readonly rest: string
}

const MAX_ATTACHMENTS = 10
const MAX_NAMESPACE = 256
// Type, attachments of binary types, namespace up to its comma or the end, and the rest.
const PACKET = /^(?:([0-4])|([56])([1-9]\d?)-)(?:(\/[^,]*)(?:,|$))?([\s\S]*)$/
// python-socketio reads digits and a dash as attachments whatever the type, and a namespace after them, so only the ack id
// and the array that every client writes are allowed here.
const EVENT_REST = /^\d{0,16}\[/
const ACK_REST = /^\d{1,16}\[/
/** Reads the text of a message packet, without the Engine.IO type; undefined: invalid, or ambiguous. */
export const readSocketIoPacket = (text: string): SocketIoPacket | undefined => {
  const parts = PACKET.exec(text)
  if (parts === null) return undefined
  const [, plain, binary, count, namespace = '/', rest = ''] = parts
  const attachments = count === undefined ? 0 : Number(count)
  if (attachments > MAX_ATTACHMENTS || namespace.length > MAX_NAMESPACE) return undefined
  const type = Number(plain ?? binary)
  if ((type === EVENT || type === BINARY_EVENT) && !EVENT_REST.test(rest)) return undefined
  if ((type === ACK || type === BINARY_ACK) && !ACK_REST.test(rest)) return undefined
  return { type, namespace: ownName(namespace), attachments, rest }
}

/** As `ownText`, for names that need not be Latin-1: V8 would keep the packet for a substring of more than 12 characters. */
const ownName = (name: string): string => (name.length > 12 ? Buffer.from(name).toString() : name)

/** `4` (message), the type, and the namespace unless it is the root. */
const head = (type: number, namespace: string): string => `4${type}${namespace === '/' ? '' : `${namespace},`}`

export const connectPacket = (namespace: string, auth: object): string =>
  head(CONNECT, namespace) + JSON.stringify(auth)

export const disconnectPacket = (namespace: string): string => head(DISCONNECT, namespace)

/** Acknowledges an event with one argument, given as JSON. It keeps nothing of that event. */
export const ackPacket = (namespace: string, id: string, argument: string): string =>
  `${head(ACK, namespace)}${ownText(id)}[${argument}]`

/** A stock client raises `connect_error` with this message and `data`. */
export const connectErrorPacket = (
  namespace: string,
  { message, code, statusCode }: { message: string; code: string; statusCode: number }
): string => head(CONNECT_ERROR, namespace) + JSON.stringify({ message, data: { code, statusCode } })

/** The payload of a CONNECT or open packet: a JSON object, `{}` if there is none; undefined: anything else. */
export const readPayload = (text: string): Record<string, unknown> | undefined => (text === '' ? {} : readRecord(text))

const MAX_NAME = 256
// A JSON string (RFC 8259 §7), or a number, which socket.io allows, as the first item of an array.
const NAME = /^\d*\[[ \t\n\r]*(?:"((?:[^"\\\p{Cc}]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)"|(\d{1,15}))[ \t\n\r]*[,\]]/u

/** The name of the event with this ack id and array; undefined: none that every JSON parser reads alike. */
export const eventName = (rest: string): string | undefined => {
  const from = rest.indexOf('[') + 2
  const to = rest.indexOf('"', from)
  // As every client writes it, which is almost always the case.
  const name = rest.slice(from, to)
  const isPlain = rest[from - 1] === '"' && to !== -1 && (rest[to + 1] === ',' || rest[to + 1] === ']')
  if (isPlain && name.length <= MAX_NAME && PLAIN.test(name)) return name
  const [, escaped, number] = NAME.exec(rest.slice(0, 20 + 6 * MAX_NAME)) ?? []
  if (escaped === undefined) return number
  const read: unknown = JSON.parse(`"${escaped}"`)
  return typeof read === 'string' && read.length <= MAX_NAME && !CONTROL.test(read) ? read : undefined
}

const PLAIN = /^[^\\\p{Cc}]*$/u
const CONTROL = /\p{Cc}/u

/** The ack id of an event that requests an acknowledgement; '': it requests none. */
export const ackIdOf = (rest: string): string => rest.slice(0, rest.indexOf('['))
