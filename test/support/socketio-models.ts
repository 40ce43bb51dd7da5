// Models how other servers read Socket.IO packets, written down from their sources, for tests that compare readings.
import { Decoder } from 'socket.io-parser'

/** What a server made of the packets that reached it. */
export interface Delivery {
  readonly kind: 'connect' | 'disconnect' | 'event' | 'ack'
  readonly namespace: string
  /** Name of the event; '' of the others. */
  readonly event: string
  readonly data: unknown
}

export interface ServerModel {
  readonly name: string
  /** A message packet without its Engine.IO type, or a binary message; throws what ends the connection there. */
  take(message: string | Buffer): Delivery[]
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** Digits of every script, as `str.isdigit` takes them. */
const DIGITS = /^\p{Nd}+$/u
const digitValue = (text: string): number => {
  let value = 0
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    // Each script's digits are ten in a row.
    let zero = code
    while (/^\p{Nd}$/u.test(String.fromCodePoint(zero - 1)) && code - zero < 9) zero--
    value = value * 10 + (code < 128 ? code - 48 : code - zero)
  }
  return value
}

interface PythonPacket {
  type: number
  attachments: number
  namespace: string
  data: unknown
  received: Buffer[]
}

/** `Packet.decode` of python-socketio 5.18. */
const decodePython = (text: string): PythonPacket => {
  const [first = ''] = text
  if (!DIGITS.test(first)) throw new Error('invalid literal for int()')
  const packet: PythonPacket = {
    type: digitValue(first),
    attachments: 0,
    namespace: '/',
    data: undefined,
    received: []
  }
  let rest = text.slice(first.length)
  const dash = rest.indexOf('-')
  if (dash > 0 && DIGITS.test(rest.slice(0, dash))) {
    if (dash > 10) throw new Error('too many attachments')
    packet.attachments = digitValue(rest.slice(0, dash))
    rest = rest.slice(dash + 1)
  }
  if (rest.startsWith('/')) {
    const comma = rest.indexOf(',')
    const whole = comma === -1 ? rest : rest.slice(0, comma)
    rest = comma === -1 ? '' : rest.slice(comma + 1)
    packet.namespace = whole.split('?', 1)[0] ?? ''
  }
  const id = /^\p{Nd}{1,100}/u.exec(rest)?.[0] ?? ''
  rest = rest.slice(id.length)
  if (id !== '' && /^\p{Nd}/u.test(rest)) throw new Error('id field is too long')
  if (rest !== '') packet.data = JSON.parse(rest)
  return packet
}

const fill = (data: unknown, attachments: readonly Buffer[]): unknown => {
  if (Array.isArray(data)) return data.map(item => fill(item, attachments))
  if (!isObject(data)) return data
  if (data._placeholder && 'num' in data) return attachments[Number(data.num)]
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, fill(value, attachments)]))
}

/** python-socketio: a name is cut at `?`, digits and a dash are attachments of any type, any event name has a handler. */
export const pythonModel = (namespaces: readonly string[]): ServerModel => {
  const connected = new Set<string>()
  let pending: PythonPacket | undefined
  const deliver = ({ type, namespace, data }: PythonPacket): Delivery[] => {
    if (!connected.has(namespace)) return []
    if (type === 3 || type === 6) return [{ kind: 'ack', namespace, event: '', data }]
    const [event, ...rest] = Array.isArray(data) ? data : isObject(data) ? [] : [...String(data ?? '')]
    return [{ kind: 'event', namespace, event: String(event), data: rest }]
  }
  return {
    name: 'python-socketio',
    take(message) {
      if (pending !== undefined) {
        pending.received.push(Buffer.from(message))
        if (pending.received.length < pending.attachments) return []
        const whole = { ...pending, data: fill(pending.data, pending.received) }
        pending = undefined
        return deliver(whole)
      }
      if (typeof message !== 'string') throw new TypeError("argument should be integer or bytes-like object, not 'str'")
      const packet = decodePython(message)
      const { type, namespace, data } = packet
      if (type === 0) {
        if (!namespaces.includes(namespace)) return []
        connected.add(namespace)
        return [{ kind: 'connect', namespace, event: '', data }]
      }
      if (type === 1) {
        pending = undefined
        return connected.delete(namespace) ? [{ kind: 'disconnect', namespace, event: '', data }] : []
      }
      if (type === 2 || type === 3) return deliver(packet)
      if (type !== 5 && type !== 6) throw new Error('Unknown packet type.')
      if (!connected.has(namespace)) throw new Error('Unexpected binary packet')
      pending = packet
      return []
    }
  }
}

/** socket.io 4: its own parser, and a connection that ends with a packet for a namespace that is not connected. */
export const stockModel = (namespaces: readonly string[]): ServerModel => {
  const connected = new Set<string>()
  const decoder = new Decoder()
  let delivered: Delivery[] = []
  decoder.on('decoded', ({ type, nsp, data }: { type: number; nsp: string; data?: unknown }) => {
    if (type === 0) {
      if (!namespaces.includes(nsp)) return
      connected.add(nsp)
      delivered.push({ kind: 'connect', namespace: nsp, event: '', data })
    } else if (!connected.has(nsp)) throw new Error('no such namespace')
    else if (type === 1) {
      connected.delete(nsp)
      delivered.push({ kind: 'disconnect', namespace: nsp, event: '', data })
    } else if (type === 3 || type === 6) delivered.push({ kind: 'ack', namespace: nsp, event: '', data })
    else delivered.push({ kind: 'event', namespace: nsp, event: String(Array.isArray(data) ? data[0] : ''), data })
  })
  return {
    name: 'socket.io-parser',
    take(message) {
      delivered = []
      decoder.add(message)
      return delivered
    }
  }
}

/** The bytes that lenient decoders of Base64 find: either alphabet, blanks and padding anywhere. */
const decodeBase64 = (text: string): Buffer =>
  Buffer.from(
    text
      .replace(/[^A-Za-z0-9+/_-]/g, '')
      .replaceAll('-', '+')
      .replaceAll('_', '/'),
    'base64'
  )

/** The messages that python-engineio finds in an Engine.IO packet; undefined: it ends the connection. */
export const engineMessage = (packet: string): string | Buffer | undefined => {
  if (packet.startsWith('b')) return decodeBase64(packet.slice(1))
  const [type = '', next = ''] = packet
  if (!DIGITS.test(type) || digitValue(type) !== 4) return undefined
  const rest = packet.slice(type.length)
  if (/^\p{N}/u.test(next)) return rest
  try {
    const read: unknown = JSON.parse(rest)
    return typeof read === 'string' ? read : rest
  } catch {
    return rest
  }
}
