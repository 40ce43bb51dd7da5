// Reads the name of an event from its packet, and nothing else.

const MAX_NAME = 256
// A JSON string (RFC 8259 §7), or a number, which socket.io allows, as the first item of an array.
const NAME = /^\d*\[[ \t\n\r]*(?:"((?:[^"\\\p{Cc}]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)"|(\d{1,15}))[ \t\n\r]*[,\]]/u

/** The name of the event with this ack id and array; undefined: none that every JSON parser reads alike. */
export const eventName = (rest: string): string | undefined => {
  const from = rest.indexOf('[') + 2
  const to = rest.indexOf('"', from)
  // As every client writes it, which is almost always the case.
  const name = rest.slice(from, to)
  const isPlain = rest[from - 1] === '"' && to !== -1 && (rest[to + 1] === ',' || rest[to + 1] === ']')
  if (isPlain && name.length <= MAX_NAME && PLAIN.test(name)) return name
  const [, escaped, number] = NAME.exec(rest.slice(0, 20 + 6 * MAX_NAME)) ?? []
  if (escaped === undefined) return number
  const read: unknown = JSON.parse(`"${escaped}"`)
  return typeof read === 'string' && read.length <= MAX_NAME && !CONTROL.test(read) ? read : undefined
}

const PLAIN = /^[^\\\p{Cc}]*$/u
const CONTROL = /\p{Cc}/u

/** The ack id of an event that requests an acknowledgement; '': it requests none. */
export const ackIdOf = (rest: string): string => rest.slice(0, rest.indexOf('['))
