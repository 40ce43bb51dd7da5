// Explains why Portaria refuses what RFC 9113 allows, and why HAProxy or nginx does otherwise than Portaria.
import { METHODS } from 'node:http'
import { canonicalPath } from '../../../gateway/routes/canonical-path.ts'
import { valuesOf } from '../readings/http-lines.ts'
import type { Sent } from './exchange.ts'
import type { Front } from './fronts.ts'
import type { Field, Message } from './messages.ts'
import { faultsOf, fieldFaults, lateFaults } from './model.ts'

/**
 * nghttp2 leaves out a field that has one of these, instead of refusing the request (RFC 9113 §8.2.1). What is forwarded is the
 * request without it.
 */
const LEFT_OUT = new Set([
  'a character that no name has',
  'a name that is no token',
  'a line break or NUL in a value',
  'another control character in a value'
])

const isKept = (field: Field): boolean =>
  !fieldFaults(field).some(fault => LEFT_OUT.has(fault)) &&
  !(field[0] === 'host' && !/^[\w.~!$&'()*+,;=:%[\]-]*$/.test(field[1]))

/** The message as nghttp2 gives it to Portaria. */
export const withoutLeftOut = (message: Message): Message => ({
  ...message,
  fields: message.fields.filter(field => field[0].startsWith(':') || isKept(field)),
  trailers: message.trailers.filter(field => field[0].startsWith(':') || isKept(field))
})

type Reason = readonly [sentence: string, applies: (sent: Sent) => boolean]

const first = ({ message }: Sent, name: string): string | undefined => valuesOf(message.fields, name)[0]

const LATE: Reason = [
  'what is wrong behind a body of a known length is noticed before the request is forwarded, or after it',
  ({ message }) => lateFaults(message).length > 0
]

/** Why Portaria refuses what RFC 9113 allows. */
const OWN_REASONS: readonly Reason[] = [
  LATE,
  [
    'it takes the methods of node:http, without TRACE',
    sent => !METHODS.includes(first(sent, ':method') ?? '') || first(sent, ':method') === 'TRACE'
  ],
  [
    'backends read such a path in several ways',
    sent => canonicalPath((first(sent, ':path') ?? '').split('?', 1)[0] ?? '').path === undefined
  ],
  [
    'it takes a host without commas, and a port with digits',
    sent => /,|:$/.test(first(sent, ':authority') ?? first(sent, 'host') ?? '')
  ],
  ['an expectation is sent once', ({ message }) => valuesOf(message.fields, 'expect').length > 1],
  [
    'a trailer neither frames nor routes (RFC 9110 §6.5.1)',
    ({ message }) => message.trailers.some(([name]) => /^(?:content-length|host)$/.test(name))
  ]
]

export const ownReason = (sent: Sent): string | undefined => OWN_REASONS.find(([, applies]) => applies(sent))?.[0]

/** Malformed requests that a peer takes, some after a repair. */
const TAKEN: Readonly<Partial<Record<Front['name'], string>>> = {
  HAProxy:
    'CONNECT|a malformed host|an unknown pseudo-field|no host|two hosts|a host beside another authority|an asterisk without OPTIONS|' +
    'more than one content-length|a malformed content-length|a content-length without a body|a blank at an end of a value|' +
    'another control character in a value',
  nginx: 'a field of connections|te|a malformed host|a blank at an end of a value|a pseudo-field behind fields|no path'
}
const takes = (peer: Front['name'], fault: string): boolean => TAKEN[peer]?.split('|').includes(fault) === true

/** Why a peer refuses, or changes, what Portaria forwards. */
const PEER_REASONS: Readonly<Partial<Record<Front['name'], readonly Reason[]>>> = {
  HAProxy: [
    LATE,
    [
      'it refuses te, host and content-length in trailers',
      ({ message }) => message.trailers.some(([name]) => /^(?:te|host|content-length)$/.test(name))
    ],
    [
      'it refuses trailers without a field',
      ({ message }) => message.end === 'trailers' && message.trailers.length === 0
    ],
    [
      'it takes te in lower case alone',
      ({ message }) => valuesOf(message.fields, 'te').some(value => value !== 'trailers')
    ],
    [
      'it writes another scheme than http and https into the target',
      sent => !/^https?$/i.test(first(sent, ':scheme') ?? '')
    ],
    ['it refuses the method PRI', sent => first(sent, ':method') === 'PRI'],
    [
      'it refuses, or leaves out, what nghttp2 leaves out',
      ({ message }) =>
        withoutLeftOut(message).fields.length < message.fields.length ||
        withoutLeftOut(message).trailers.length < message.trailers.length
    ],
    [
      'it leaves out the default port',
      sent => /:(?:80|443)$/.test(first(sent, ':authority') ?? first(sent, 'host') ?? '')
    ]
  ],
  nginx: [
    LATE,
    ['it knows no trailers', ({ message }) => message.end === 'trailers'],
    [
      'it refuses Host beside :authority',
      ({ message }) => valuesOf(message.fields, 'host').length > 0 && valuesOf(message.fields, ':authority').length > 0
    ],
    [
      'it refuses what nghttp2 leaves out',
      ({ message }) => withoutLeftOut(message).fields.length < message.fields.length
    ]
  ]
}

/** @param difference `accepts`, `refuses` or `changes …` */
export const explanationsOf = (peer: Front['name'], difference: string, sent: Sent): readonly string[] => {
  const faults = faultsOf(sent.message)
  if (difference === 'accepts' && faults.length > 0)
    return faults.every(fault => takes(peer, fault)) ? faults.map(fault => `${peer} takes ${fault}`) : []
  const reason =
    difference === 'accepts' ? ownReason(sent) : PEER_REASONS[peer]?.find(([, applies]) => applies(sent))?.[0]
  const who = difference === 'accepts' ? 'Portaria refuses' : `${peer} ${difference.split(' ')[0]}`
  return reason === undefined ? [] : [`${who}: ${reason}`]
}
