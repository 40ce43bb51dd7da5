// Reads Engine.IO payloads and Socket.IO packets: what passes is read alike by python-socketio and the stock server.
import { readEnginePayload, textOf } from '../../../../gateway/socketio/protocol/engineio.ts'
import { CONNECT, EVENT, isPlainNamespace, readSocketIoPacket } from '../../../../gateway/socketio/protocol/packets.ts'
import { pythonModel, stockModel } from '../../../support/socketio-models.ts'
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

const judgePacket = (text: string): string => {
  const packet = readSocketIoPacket(text)
  if (packet === undefined) return 'none'
  const { type, namespace, attachments } = packet
  const isPlain = isPlainNamespace(namespace)
  if (isPlain && attachments === 0 && (type === CONNECT || type === EVENT)) {
    for (const model of [pythonModel, stockModel]) {
      for (const heard of heardBy(model, text))
        if (heard.namespace !== namespace) throw new Fault('a packet is heard in another namespace')
    }
  }
  return `${type} ${isPlain} ${Math.min(attachments, 3)} ${NAMESPACES.includes(namespace)}`
}

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
      .map(packet => (packet.type === '4' ? judgePacket(packet.text.slice(1)) : packet.type))
      .join()
  }
}
