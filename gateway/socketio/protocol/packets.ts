// Reads Socket.IO packets (protocol revision 5) as far as decisions need: type, namespace, attachments, payload of CONNECT.
import { isRecord } from '../../values/records.ts'

// Beside these: 2 EVENT, 3 ACK, 5 BINARY_EVENT.
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
  /** Binary messages that follow; 0 unless the type is a binary one. */
  readonly attachments: number
  /** What follows the namespace: of an event or acknowledgement an ack id and a JSON array, of others as it came. */
  readonly rest: string
}

const MAX_ATTACHMENTS = 10
const MAX_NAMESPACE = 256
// Type, attachments of binary types, namespace up to its comma or the end, and all the rest.
const PACKET = /^(?:([0-4])|([56])([1-9]\d?)-)(?:(\/[^,]*)(?:,|$))?([\s\S]*)$/
// python-socketio takes digits and a dash for attachments whatever the type, and a namespace after them: so nothing may
// stand here but the ack id and the array that every client writes.
const EVENT_REST = /^\d{0,16}\[/
const ACK_REST = /^\d{1,16}\[/
// What others cut a name at (`?`), or never put into one.
const NAMESPACE = /^\/[^\s,?#\\"'[\]{}\p{Cc}]*$/u

/** Whether every implementation reads this name as it stands. */
export const isPlainNamespace = (name: string): boolean => NAMESPACE.test(name)

/** Reads the text of a message packet, without the Engine.IO type; undefined: none of the protocol, or readable in two ways. */
export const readSocketIoPacket = (text: string): SocketIoPacket | undefined => {
  const parts = PACKET.exec(text)
  if (parts === null) return undefined
  const [, plain, binary, count, namespace = '/', rest = ''] = parts
  const attachments = count === undefined ? 0 : Number(count)
  if (attachments > MAX_ATTACHMENTS || namespace.length > MAX_NAMESPACE) return undefined
  const type = Number(plain ?? binary)
  if ((type === EVENT || type === BINARY_EVENT) && !EVENT_REST.test(rest)) return undefined
  if ((type === ACK || type === BINARY_ACK) && !ACK_REST.test(rest)) return undefined
  return { type, namespace, attachments, rest }
}

/** `4` (message), the type, and the namespace unless it is the root. */
const head = (type: number, namespace: string): string => `4${type}${namespace === '/' ? '' : `${namespace},`}`

export const connectPacket = (namespace: string, auth: object): string =>
  head(CONNECT, namespace) + JSON.stringify(auth)

export const disconnectPacket = (namespace: string): string => head(DISCONNECT, namespace)

/** Answers an event with one argument, given as JSON. */
export const ackPacket = (namespace: string, id: string, argument: string): string =>
  `${head(ACK, namespace)}${id}[${argument}]`

/** A stock client raises `connect_error` with this message and `data`. */
export const connectErrorPacket = (
  namespace: string,
  { message, code, statusCode }: { message: string; code: string; statusCode: number }
): string => head(CONNECT_ERROR, namespace) + JSON.stringify({ message, data: { code, statusCode } })

/** The payload of a CONNECT packet: a JSON object, `{}` when there is none; undefined: something else. */
export const readAuth = (rest: string): Record<string, unknown> | undefined => {
  if (rest === '') return {}
  try {
    const auth: unknown = JSON.parse(rest)
    return isRecord(auth) ? { ...auth } : undefined
  } catch {
    return undefined
  }
}
