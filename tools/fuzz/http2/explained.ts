// Explains why Portaria refuses what RFC 9113 allows, and what it forwards without some fields.
import { METHODS } from 'node:http'
import { canonicalPath } from '../../../gateway/routes/canonical-path.ts'
import { type Field, valuesOf } from '../readings/http-lines.ts'
import type { Sent } from './exchange.ts'
import type { Message } from './messages.ts'
import { fieldFaults, lateFaults } from './model.ts'

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

/** Why Portaria refuses what RFC 9113 allows. */
const OWN_REASONS: readonly Reason[] = [
  [
    'what is wrong behind a body of a known length is noticed before the request is forwarded, or after it',
    ({ message }) => lateFaults(message).length > 0
  ],
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
