// Reads Engine.IO payloads and Socket.IO packets: what passes is read alike by python-socketio and the stock server.
import { isPlainNamespace } from '../../../../gateway/routes/socketio-rules.ts'
import { readEnginePayload, textOf } from '../../../../gateway/socketio/protocol/engineio.ts'
import {
  CONNECT,
  connectPacket,
  EVENT,
  readAuth,
  readSocketIoPacket
} from '../../../../gateway/socketio/protocol/packets.ts'
import { pythonModel, stockModel } from '../../../../test/support/socketio-models.ts'
import type { Random } from '../../mutate.ts'
import { Fault, type Target } from '../engine.ts'

const NAMESPACES = ['/', '/chat', '/admin']

interface Heard {
  readonly namespace: string
  readonly kind: string
}

/** Where a server delivers an event, after CONNECTs to all namespaces; undefined: nowhere. */
const heardBy = (model: typeof pythonModel, text: string): Heard[] => {
  const server = model(NAMESPACES)
  for (const namespace of NAMESPACES) server.take(`0${namespace === '/' ? '' : `${namespace},`}`)
  try {
    return server.take(text).map(({ namespace, kind }) => ({ namespace, kind }))
  } catch {
    return []
  }
}

const checkPacket = (text: string): string => {
  const packet = readSocketIoPacket(text)
  if (packet === undefined) return 'none'
  const { type, namespace, attachments, rest } = packet
  // CONNECT goes on in the gateway's own words.
  const passed = type === CONNECT ? connectPacket(namespace, readAuth(rest) ?? {}).slice(1) : text
  const isPlain = isPlainNamespace(namespace)
  if (isPlain && attachments === 0 && (type === CONNECT || type === EVENT)) {
    for (const model of [pythonModel, stockModel]) {
      for (const heard of heardBy(model, passed))
        if (heard.namespace !== namespace) throw new Fault('a packet is heard in another namespace')
    }
  }
  return `${type} ${isPlain} ${Math.min(attachments, 3)} ${NAMESPACES.includes(namespace)}`
}

// What readers of a namespace cut off, decode, fold or trim (the stock server parses it as a URL).
const SPELLINGS = ['', '?a=b', '?', '#a', ' ', '/', '\xa0', '%20', '?/admin', '\0']
const PLACES = [...NAMESPACES, '/CHAT', '/%63hat', 'chat', '//chat', '']

const generate = (random: Random): string =>
  Array.from({ length: 1 + random.below(2) }, () => {
    const namespace = random.pick(PLACES) + random.pick(SPELLINGS)
    const separator = random.pick([',', ',', ',', ''])
    return `4${random.pick(['0', '2', '2', '1', '3', '51-'])}${namespace}${separator}${random.pick(['', '', '7'])}${random.pick(['["a"]', '{}', ''])}`
  }).join('\x1e')

export const socketIo: Target = {
  name: 'socketio',
  words: [
    ...[
      '\x1e',
      '4',
      '0',
      '2',
      '3',
      '5',
      '51-',
      '/',
      '/chat',
      '/admin',
      '/chat,',
      '/admin,',
      ',',
      '?',
      '[',
      ']',
      '{',
      '}',
      '"',
      '-',
      '1',
      '12'
    ],
    ...[
      '["a"]',
      '{"_placeholder":true,"num":0}',
      'b',
      'bAAA=',
      'bAA',
      '\n',
      '\\u0061',
      'null',
      '42',
      '420',
      '41',
      '6',
      '\xd9\xa1',
      '\xb2'
    ]
  ],
  seeds: [
    '40',
    '42["a"]',
    '42/chat,["a",1]',
    '42/chat,7["a"]',
    '43/chat,7[]',
    '451-/chat,["a",{"_placeholder":true,"num":0}]\x1ebAAA=',
    '41/chat',
    '2',
    '3'
  ],
  generate,
  run(input) {
    const text = Buffer.from(input, 'latin1').toString('utf8')
    const packets = readEnginePayload(text)
    if (packets === undefined) return 'no payload'
    // What goes on is what was read: in its own words once more.
    const again = readEnginePayload(packets.map(textOf).join('\x1e'))
    if (again === undefined || JSON.stringify(again) !== JSON.stringify(packets))
      throw new Fault('a payload changes on its way')
    return packets
      .slice(0, 4)
      .map(packet => (packet.type === '4' ? checkPacket(packet.text.slice(1)) : packet.type))
      .join()
  }
}
