// Splits bytes from a directory into whole, well-formed LDAP messages of bounded size and number.

/** A BER element (X.690 §8.1): its tag octet and its content. */
export interface BerElement {
  readonly tag: number
  readonly content: Buffer
}

/** The directory sent something that is not LDAP, or too much of it. */
export class LdapFault extends Error {}

/** The directory says that it ends the connection (RFC 4511 §4.4.1), and why. */
export class DisconnectionNotice extends LdapFault {
  readonly resultCode: number | undefined

  constructor(resultCode: number | undefined) {
    super('the directory gave notice of disconnection')
    this.resultCode = resultCode
  }
}

interface MessageLimits {
  /** Total size of all messages of one exchange. */
  readonly maxBytes: number
  readonly maxMessages: number
}

/** Protocol operation tags (RFC 4511 §4.2 ff.). */
export const OPERATION = { bind: 0x61, entry: 0x64, searchDone: 0x65, reference: 0x73, extended: 0x78 } as const

const TAG = { boolean: 0x01, integer: 0x02, octets: 0x04, enumerated: 0x0a, sequence: 0x30, set: 0x31, controls: 0xa0 }

/**
 * Splits a byte stream into LDAP messages. The returned function takes a chunk and returns the messages it completes; it
 * throws LdapFault if a length is impossible or a limit is exceeded, before the bytes in question are buffered.
 */
export const createMessageReader = (limits: MessageLimits): ((chunk: Buffer) => Buffer[]) => {
  let chunks: Buffer[] = []
  let buffered = 0
  let wanted = 2
  let totalBytes = 0
  let totalMessages = 0

  return chunk => {
    totalBytes += chunk.length
    if (totalBytes > limits.maxBytes) throw new LdapFault(`more than ${limits.maxBytes} bytes`)
    chunks.push(chunk)
    buffered += chunk.length
    const messages: Buffer[] = []
    while (buffered >= wanted) {
      const whole = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)
      if (whole[0] !== TAG.sequence) throw new LdapFault('not an LDAP message')
      const end = elementEnd(whole, 0)
      if (end !== undefined && end > limits.maxBytes) throw new LdapFault(`a message of ${end} bytes`)
      const isComplete = end !== undefined && whole.length >= end
      if (isComplete) {
        totalMessages += 1
        if (totalMessages > limits.maxMessages) throw new LdapFault(`more than ${limits.maxMessages} messages`)
        messages.push(whole.subarray(0, end))
      }
      const rest = isComplete ? whole.subarray(end) : whole
      chunks = rest.length === 0 ? [] : [rest]
      buffered = rest.length
      wanted = isComplete ? 2 : (end ?? whole.length + 1)
    }
    return messages
  }
}

/** The end of the element at `start`, or undefined if its length is not known yet. */
const elementEnd = (bytes: Buffer, start: number): number | undefined => {
  const first = bytes[start + 1]
  if (first === undefined) return undefined
  if (first < 0x80) return start + 2 + first
  const lengthBytes = first & 0x7f
  // Indefinite lengths are not allowed (RFC 4511 §5.1); lengths of more than four bytes exceed every limit.
  if (lengthBytes === 0 || lengthBytes > 4) throw new LdapFault('a length that LDAP does not allow')
  if (bytes.length < start + 2 + lengthBytes) return undefined
  return start + 2 + lengthBytes + bytes.readUIntBE(start + 2, lengthBytes)
}

/** The elements that fill `bytes` exactly; otherwise throws LdapFault. */
export const readElements = (bytes: Buffer): BerElement[] => {
  const elements: BerElement[] = []
  for (let start = 0; start < bytes.length; ) {
    const tag = bytes[start] ?? 0
    const end = elementEnd(bytes, start)
    if (end === undefined || end > bytes.length) throw new LdapFault('an element beyond the end of its message')
    const lengthByte = bytes[start + 1] ?? 0
    elements.push({ tag, content: bytes.subarray(start + 2 + (lengthByte < 0x80 ? 0 : lengthByte & 0x7f), end) })
    start = end
  }
  return elements
}

/**
 * Validates a message against the grammar of RFC 4511 Appendix B, so that a lenient parser can neither loop on a
 * truncated element nor read an absent result code as success. Entries and references have no result code.
 */
export const readResponse = (message: Buffer) => {
  const [envelope, ...trailing] = readElements(message)
  if (envelope?.tag !== TAG.sequence || trailing.length > 0) throw new LdapFault('not an LDAP message')
  const [id, operation, controls, ...surplus] = readElements(envelope.content)
  if (id?.tag !== TAG.integer || id.content.length < 1 || id.content.length > 4) throw new LdapFault('no message id')
  if (operation === undefined || surplus.length > 0) throw new LdapFault('no protocol operation')
  const hasMorePages = controls !== undefined && checkControls(controls)
  const resultCode = checkOperation(operation)
  // Message id 0 is reserved for notices, and there is only this one.
  if (id.content.every(byte => byte === 0)) throw new DisconnectionNotice(resultCode)
  return { operation: operation.tag, resultCode, hasMorePages }
}

const checkOperation = ({ tag, content }: BerElement): number | undefined => {
  const parts = readElements(content)
  if (tag === OPERATION.entry) return void checkEntry(parts)
  if (tag === OPERATION.reference) return void expectAll(parts, TAG.octets)
  if (tag !== OPERATION.bind && tag !== OPERATION.searchDone && tag !== OPERATION.extended) {
    throw new LdapFault(`an unsolicited operation 0x${tag.toString(16)}`)
  }
  const [code, matchedDn, diagnostic] = parts
  const isResult = code?.tag === TAG.enumerated && matchedDn?.tag === TAG.octets && diagnostic?.tag === TAG.octets
  if (!isResult || code.content.length < 1 || code.content.length > 3) throw new LdapFault('no result in a response')
  return code.content.readIntBE(0, code.content.length)
}

const checkEntry = ([name, attributes, ...surplus]: BerElement[]): void => {
  if (name?.tag !== TAG.octets || attributes?.tag !== TAG.sequence || surplus.length > 0)
    throw new LdapFault('no entry')
  for (const attribute of readElements(attributes.content)) {
    const [type, values, ...more] = attribute.tag === TAG.sequence ? readElements(attribute.content) : []
    if (type?.tag !== TAG.octets || values?.tag !== TAG.set || more.length > 0) throw new LdapFault('no attribute')
    // ldapts would put it in the place of the entry's name.
    if (type.content.toString() === 'dn') throw new LdapFault('an attribute called dn')
    expectAll(readElements(values.content), TAG.octets)
  }
}

const PAGED_RESULTS = '1.2.840.113556.1.4.319'

/** Returns whether one of them has the cookie of a next page (RFC 2696 §2). */
const checkControls = ({ tag, content }: BerElement): boolean => {
  if (tag !== TAG.controls) throw new LdapFault('something after the protocol operation')
  let hasMorePages = false
  for (const control of readElements(content)) {
    const [type, ...rest] = control.tag === TAG.sequence ? readElements(control.content) : []
    const value = rest[0]?.tag === TAG.boolean && rest[0].content.length === 1 ? rest.slice(1) : rest
    if (type?.tag !== TAG.octets || value.length > 1) throw new LdapFault('no control')
    expectAll(value, TAG.octets)
    if (type.content.toString() !== PAGED_RESULTS || value[0] === undefined) continue
    const [, cookie] = readElements(readElements(value[0].content)[0]?.content ?? Buffer.alloc(0))
    if (cookie !== undefined && cookie.content.length > 0) hasMorePages = true
  }
  return hasMorePages
}

const expectAll = (elements: readonly BerElement[], tag: number): void => {
  if (elements.some(element => element.tag !== tag)) throw new LdapFault('an element of the wrong kind')
}
