// Reads PROXY headers with the gateway's parser, and with one that is written from the grammar of the specification alone.
import { isIP } from 'node:net'
import { readProxyHeader } from '../../../../gateway/listener/proxy-protocol.ts'
import type { Random } from '../../mutate.ts'
import { Fault, type Target } from '../engine.ts'

const SIGNATURE = '\r\n\r\n\0\r\nQUIT\n'
const WORDS = [
  ...[
    'PROXY ',
    'TCP4',
    'TCP6',
    'UNKNOWN',
    ' ',
    '\r\n',
    '\n',
    '\r',
    '0',
    '65535',
    '65536',
    '01',
    '::1',
    '1.2.3.4',
    '\0',
    '\xff'
  ],
  ...[
    '255.255.255.255',
    '2001:db8::1',
    '::ffff:1.2.3.4',
    SIGNATURE,
    '\x21',
    '\x20',
    '\x11',
    '\x00\x0c',
    '\x00\x24',
    '\x00\xd8'
  ]
]

/** Whether it is a header, how long it is and whom it names; undefined: none, or not yet. */
const readByModel = (text: string): string | undefined => {
  const v1 = /^PROXY (?:UNKNOWN(?: [^\n]*)?|(TCP[46]) (\S+) (\S+) (\d+) (\d+))\r\n/.exec(text.slice(0, 107))
  if (v1 !== null) {
    const [line, family, source = '', destination = '', ...ports] = v1
    if (family === undefined) return `${line.length} -`
    const version = family === 'TCP4' ? 4 : 6
    const isRight = [source, destination].every(address => isIP(address) === version && !address.includes('%'))
    const arePorts = ports.every(port => port === String(Number(port)) && Number(port) < 65536)
    return isRight && arePorts ? `${line.length} ${source} ${ports[0]}` : undefined
  }
  if (!text.startsWith(SIGNATURE) || text.length < 16) return undefined
  const at = (index: number) => text.charCodeAt(index)
  const length = 16 + at(14) * 256 + at(15)
  if (length > 4096 || text.length < length) return undefined
  if (at(12) === 0x20) return `${length} -`
  const needed = { 0: 0, 17: 12, 33: 36, 49: 216 }[at(13)]
  if (at(12) !== 0x21 || needed === undefined || length - 16 < needed) return undefined
  if (at(13) === 0x11) return `${length} ${[16, 17, 18, 19].map(at).join('.')} ${at(24) * 256 + at(25)}`
  return at(13) === 0x21 ? `${length} v6 ${at(48) * 256 + at(49)}` : `${length} -`
}

const read = (bytes: Buffer) => {
  const header = readProxyHeader(bytes)
  if (header.state !== 'complete') return { state: header.state, text: undefined }
  const { peer, length } = header
  const isBinary = bytes[0] === 13
  const address = isBinary && peer?.address.includes(':') ? 'v6' : peer?.address
  return { state: header.state, text: peer === undefined ? `${length} -` : `${length} ${address} ${peer.port}` }
}

const run = (input: string, random: Random): string => {
  const bytes = Buffer.from(input, 'latin1')
  const { state, text } = read(bytes)
  const model = readByModel(input)
  if (text !== model) throw new Fault(`a header by one reading alone: ${text} or ${model}`)
  if (state === 'incomplete' && bytes.length >= 4096) throw new Fault('more is awaited than a header can have')

  // More bytes only ever decide what was open; what is decided stays.
  const cut = random.below(bytes.length + 1)
  const early = read(bytes.subarray(0, cut))
  if (early.state !== 'incomplete' && (early.state !== state || early.text !== text))
    throw new Fault(`${early.state} after ${cut} bytes, ${state} after all`)
  return `${state} ${input.slice(0, 11)} ${Math.min(bytes.length, 20)} ${early.state} ${text?.split(' ').length}`
}

const ADDRESSES = [
  '1.2.3.4',
  '255.255.255.255',
  '::1',
  '2001:db8::1',
  '::ffff:1.2.3.4',
  '01.2.3.4',
  '256.1.1.1',
  '::1%a'
]
const PORTS = ['0', '1', '443', '65535', '65536', '99999', '100000', '01', '']

const generate = (random: Random): string => {
  if (random.below(2) === 0) {
    const words = ['PROXY', random.pick(['TCP4', 'TCP4', 'TCP6', 'UNKNOWN', 'UDP4'])]
    for (const list of [ADDRESSES, ADDRESSES, PORTS, PORTS]) words.push(random.pick(list))
    return words.join(' ') + random.pick(['\r\n', '\r\n', '\r\n', '\n', '\r'])
  }
  const length = random.pick([0, 11, 12, 13, 35, 36, 37, 215, 216, 217])
  const start = random.pick(['\x20', '\x21', '\x21', '\x22']) + random.pick(['\x00', '\x11', '\x21', '\x31', '\x12'])
  return `${SIGNATURE}${start}\0${String.fromCharCode(length)}${'\x01'.repeat(Math.max(0, length + 1 - random.below(3)))}`
}

export const proxyHeaders: Target = {
  name: 'proxy-headers',
  words: WORDS,
  seeds: [
    'PROXY TCP4 203.0.113.9 10.0.0.1 40001 443\r\nGET /',
    'PROXY TCP6 2001:db8::1 ::1 1 2\r\n',
    'PROXY UNKNOWN\r\n',
    'PROXY UNKNOWN anything\r\n',
    `${SIGNATURE}\x20\0\0\0`,
    `${SIGNATURE}\x21\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02GET`,
    `${SIGNATURE}\x21\x21\0\x24${'\x20\x01'.repeat(16)}\x00\x01\x00\x02`,
    `${SIGNATURE}\x21\x00\0\x03\x01\0\0`
  ],
  generate,
  run
}
