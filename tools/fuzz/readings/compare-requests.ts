// Compares what the gateway read of a client's bytes with what node:http and the model of RFC 9112 read of them.
import type { ReadMessages } from '../../../test/support/message-reader.ts'
import type { Reading } from './http-requests.ts'
import type { NodeReading } from './node-requests.ts'

interface Message {
  readonly method: string
  readonly target: string
  readonly fields: string
  readonly body: string
  readonly isComplete: boolean
}

interface Readers {
  readonly ours: ReadMessages
  readonly node: NodeReading
  readonly model: Reading
}

export const oursAsMessages = ({ requests }: ReadMessages): Message[] =>
  requests.map(({ method, target, fields, body, isComplete }) => ({
    method,
    target,
    fields: fields.join('\n'),
    body,
    isComplete
  }))

const nodeAsMessages = ({ requests }: NodeReading): Message[] =>
  requests.map(({ fields, ...rest }) => ({ ...rest, fields: trimmed(fields).join('\n') }))

// llhttp leaves whitespace at the end of a value to whoever takes it.
const trimmed = (fields: readonly string[]): string[] => fields.map(text => text.replace(/[ \t]+$/, ''))

const modelAsMessages = ({ requests }: Reading): Message[] =>
  requests.map(({ method, target, fields, body, complete }) => ({
    method,
    target,
    fields: fields.flat().join('\n'),
    body,
    isComplete: complete
  }))

/** What is wrong; undefined when the gateway refused, or all read the same. */
export const compareRequests = ({ ours, node, model }: Readers): string | undefined => {
  const mine = oursAsMessages(ours)
  const theirs = { node: nodeAsMessages(node), model: modelAsMessages(model) }
  // node:http refuses raw bytes in a target, and whatever follows.
  const firstRaw = mine.findIndex(({ target }) => /[\x80-\xff]/.test(target))
  for (const [index, message] of mine.entries()) {
    const isRefused = ours.requests[index]?.isRefused === true
    if (!isRefused && model.requests[index]?.inadmissible !== undefined)
      return `request ${index + 1} is inadmissible by the model: ${model.requests[index]?.inadmissible}`
    for (const [name, read] of Object.entries(theirs)) {
      const other = read[index]
      // A refused message may be one that the other can't frame, as long as nothing is read behind it.
      if (other === undefined && isRefused && index === mine.length - 1) continue
      // node:http closes behind a trailer `Connection: close`, and takes no tab behind `chunked`; RFC 9112 does otherwise.
      if (name === 'node' && node.stopped && other?.isComplete !== true) continue
      if (name === 'node' && firstRaw !== -1 && index >= firstRaw) continue
      if (other === undefined) return `request ${index + 1} is none by the ${name}${reason(model)}`
      const fault = difference(message, other, isRefused)
      if (fault !== undefined) return `request ${index + 1} has another ${fault} by the ${name}`
    }
  }
  return lost(ours, mine, theirs.model)
}

const reason = ({ refused }: Reading): string => (refused === undefined ? '' : ` (${refused})`)

const difference = (mine: Message, other: Message, isRefused: boolean): string | undefined => {
  if (mine.method !== other.method) return 'method'
  if (mine.target !== other.target) return 'target'
  if (mine.fields !== other.fields) return 'field'
  // The body of a refused message is not read.
  if (isRefused) return undefined
  if (mine.isComplete && !other.isComplete) return 'end'
  return mine.isComplete && mine.body !== other.body ? 'body' : undefined
}

/** A request that everybody else can read may be missing only behind a refusal or the end of the connection. */
const lost = (ours: ReadMessages, mine: readonly Message[], theirs: readonly Message[]): string | undefined => {
  const last = ours.requests.at(-1)
  if (ours.fault !== undefined || last?.isRefused === true) return undefined
  const complete = (messages: readonly Message[]) => messages.filter(({ isComplete }) => isComplete).length
  return complete(mine) < complete(theirs) ? 'a request was lost' : undefined
}
