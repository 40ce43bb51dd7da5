// Cuts and checks LDAP messages, however split; what passes is read alike by a decoder of BER that knows nothing else.
import { createMessageReader, LdapFault, OPERATION, readResponse } from '../../../../gateway/directory/messages.ts'
import type { Random } from '../../mutate.ts'
import { Fault, type Target } from '../engine.ts'
import { splitBytes } from '../split.ts'

const LIMITS = { maxBytes: 4096, maxMessages: 8 }

interface Read {
  readonly messages: Buffer[]
  fault: boolean
}

const readAll = (pieces: readonly Buffer[]): Read => {
  const take = createMessageReader(LIMITS)
  const read: Read = { messages: [], fault: false }
  try {
    for (const piece of pieces) read.messages.push(...take(piece))
  } catch (error) {
    if (!(error instanceof LdapFault)) throw error
    read.fault = true
  }
  return read
}

/** X.690 §8.1 with the definite lengths of RFC 4511 §5.1: tag, content and where the element ends. */
const element = (bytes: Buffer, at: number): { tag: number; content: Buffer; end: number } | undefined => {
  const [tag, first] = [bytes[at], bytes[at + 1]]
  if (tag === undefined || first === undefined) return undefined
  const wide = first < 128 ? 0 : first - 128
  let length = first < 128 ? first : 0
  for (let index = 0; index < wide; index++) length = length * 256 + (bytes[at + 2 + index] ?? Number.NaN)
  const start = at + 2 + wide
  const end = start + length
  return end <= bytes.length ? { tag, content: bytes.subarray(start, end), end } : undefined
}

/** Operation and result code of a message: the second element of its sequence, and the first of that. */
const byModel = (message: Buffer): string => {
  const envelope = element(message, 0)
  const id = envelope && element(envelope.content, 0)
  const operation = id && element(envelope.content, id.end)
  if (operation === undefined) return 'none'
  if (operation.tag === OPERATION.entry || operation.tag === OPERATION.reference) return `${operation.tag}`
  const code = element(operation.content, 0)
  const sign = (code?.content[0] ?? 0) >= 128 ? -(2 ** (8 * (code?.content.length ?? 0))) : 0
  return `${operation.tag} ${code?.content.reduce((value, byte) => value * 256 + byte, 0) ?? 0} ${sign}`
}

const check = (message: Buffer): string => {
  try {
    const { operation, resultCode } = readResponse(message)
    const [tag, code, sign] = byModel(message).split(' ').map(Number)
    if (operation !== tag) throw new Fault('another operation by the model')
    if (resultCode !== undefined && resultCode !== (code ?? 0) + (sign ?? 0))
      throw new Fault('another result by the model')
    return `${operation} ${resultCode}`
  } catch (error) {
    if (!(error instanceof LdapFault)) throw error
    return error.message.replace(/0x\w+|\d+/g, '')
  }
}

const run = (input: string, random: Random): string => {
  const bytes = Buffer.from(input, 'latin1')
  const [whole, split] = [readAll([bytes]), readAll(splitBytes(bytes, random))]
  const same = (read: Read) => read.messages.map(message => message.toString('latin1')).join('\0\0')
  // A fault behind good messages of the same read takes them along; in another read they were there before.
  if (!whole.fault && (split.fault || same(whole) !== same(split)))
    throw new Fault('split messages are read in another way')
  if (whole.fault && !split.fault) throw new Fault('split messages pass')
  return `${whole.fault} ${whole.messages.map(check).slice(0, 3).join()} ${bytes.length < 2}`
}

/** An element whose length is written short or, as RFC 4511 §5.1 allows, with more bytes than it needs. */
const ber = (tag: number, content: string, random: Random): string => {
  const wide = random.below(3)
  const length =
    wide === 0 && content.length < 128 ? [content.length] : [0x82, content.length >> 8, content.length & 255]
  return String.fromCharCode(tag, ...length) + content
}

const DNS = ['', 'cn=x', 'dc=corp', 'x'.repeat(130)]

const generate = (random: Random): string => {
  const octets = () => ber(0x04, random.pick(DNS), random)
  const result = ber(0x0a, random.pick(['\0', '\x31', '\x80', '\x01\x02']), random) + octets() + octets()
  const values = ber(0x31, octets(), random)
  const entry = octets() + ber(0x30, ber(0x30, ber(0x04, 'cn', random) + values, random), random)
  const operation = random.pick([
    ber(0x61, result, random),
    ber(0x65, result, random),
    ber(0x64, entry, random),
    ber(0x73, octets(), random)
  ])
  return ber(0x30, ber(0x02, random.pick(['\x01', '\0', '\x7f']), random) + operation, random)
}

const message = (operation: number, content: string, id = '\x02\x01\x01'): string => {
  const inner = `${id}${String.fromCharCode(operation, content.length)}${content}`
  return `\x30${String.fromCharCode(inner.length)}${inner}`
}
const RESULT = '\x0a\x01\0\x04\0\x04\0'
const ENTRY = '\x04\x03c=x\x30\x0d\x30\x0b\x04\x02cn\x31\x05\x04\x03abc'

export const ldapMessages: Target = {
  name: 'ldap-messages',
  words: [
    ...[
      '\x30',
      '\x80',
      '\x81\x05',
      '\x82\0\x05',
      '\x84\0\0\0\x05',
      '\x85',
      '\xff',
      '\x02\x01\0',
      '\x0a\x01\0',
      '\x0a\x01\x31',
      '\x04\0'
    ],
    ...[
      '\x31\0',
      '\xa0\0',
      '\x61\x07',
      '\x64',
      '\x65',
      '\x73',
      '\x78',
      RESULT,
      ENTRY,
      '\x30\x84\xff\xff\xff\xff',
      '\0',
      '\x01\x01\xff'
    ]
  ],
  seeds: [
    message(OPERATION.bind, RESULT),
    message(OPERATION.entry, ENTRY) + message(OPERATION.searchDone, RESULT),
    message(OPERATION.bind, RESULT.replace('\x01\0', '\x01\x31')),
    message(OPERATION.reference, '\x04\x06ldap:/'),
    message(OPERATION.extended, RESULT, '\x02\x01\0')
  ],
  generate,
  run
}
