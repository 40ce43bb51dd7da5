// Reads the namespaces and events of a Socket.IO route: names, or patterns that cannot be made slow.

import type { SocketIoEvent, SocketIoNamespace, SocketIoOptions } from '../../routes/route.ts'
import { isPlainNamespace, isReservedEvent } from '../../routes/socketio-rules.ts'
import { profileName } from '../../values/names.ts'
import { parseSize } from '../../values/quantities.ts'
import type { Complain } from '../complaint.ts'
import type { SocketIoData } from '../schema/socket-schemas.ts'

type NamespaceData = SocketIoData['namespaces'][string]

/** `data` has passed the schema. */
export const defineSocketIo = (data: SocketIoData, say: Complain): SocketIoOptions => ({
  namespaces: Object.entries(data.namespaces).map(([name, rule]) => defineNamespace(name, rule, say)),
  maxMessageBytes: parseSize(data.maxMessage ?? '1MB'),
  messagesPerSecond: data.messagesPerSecond ?? 1000
})

const defineNamespace = (name: string, { roles, events }: NamespaceData, say: Complain): SocketIoNamespace => {
  const place = ['socketio', 'namespaces', name]
  return {
    name,
    pattern: definePattern(name, checkNamespace, checkNamespacePattern, message => say(message, ...place)),
    roles: roles?.map(profileName),
    events:
      events &&
      Object.entries(events).map(
        ([event, rule]): SocketIoEvent => ({
          name: event,
          pattern: definePattern(event, checkEvent, checkPattern, message => say(message, ...place, 'events', event)),
          roles: rule.roles?.map(profileName)
        })
      )
  }
}

/** The pattern in a name written as `/regex/`; undefined: a plain name. */
const definePattern = (
  name: string,
  checkName: (name: string) => string | undefined,
  checkSource: (source: string) => string | undefined,
  say: (message: string) => void
): RegExp | undefined => {
  const source = name.length > 2 ? /^\/(.*)\/$/s.exec(name)?.[1] : undefined
  const complaint = source === undefined ? checkName(name) : checkSource(source)
  if (complaint !== undefined) say(complaint)
  return source === undefined || complaint !== undefined ? undefined : compile(source)
}

const checkNamespace = (name: string): string | undefined =>
  isPlainNamespace(name) && name.length <= 200
    ? undefined
    : `a namespace must begin with / and must not contain a space, comma, ?, #, quote or bracket${/^[\w-]{1,60}$/.test(name) ? `; write /${name}` : ''}`

const checkEvent = (name: string): string | undefined => {
  if (!/^[^\p{Cc}]{1,200}$/u.test(name)) return 'the name of an event must have 1 to 200 characters'
  return isReservedEvent(name)
    ? `no client may send the event "${name}": it has a special meaning for servers`
    : undefined
}

/** Ways in which a pattern may match one text, of which a failing match tries all; repetitions are counted apart. */
const MAX_WAYS = 64

// A repeated group, many repetitions in a row, or many choices in a row can take exponential or high polynomial time (ReDoS).
// What is left takes at most MAX_WAYS times the square of a name's length, and names are short (MAX_MATCHED_NAME).
const checkPattern = (source: string): string | undefined => {
  if (source.length > 200) return 'a pattern must be at most 200 characters long'
  const plain = source.replace(/\\[^1-9k]/g, 'x').replace(/\[[^\]]*\]/g, 'x')
  if (/\\|\(\?[=!<]/.test(plain)) return 'a pattern must not use backreferences or lookaround'
  if (/\)[*+{?]/.test(plain)) return 'a pattern must not repeat a group'
  if ((plain.match(/[*+]|\{[0-9]+,/g) ?? []).length > 2) return 'a pattern must not contain more than two repetitions'
  if (waysOf(plain.replaceAll('(?:', '(')) > MAX_WAYS)
    return `a pattern must not offer more than ${MAX_WAYS} combinations of its choices (| and ?)`
  return compile(source) === undefined ? 'this is not a valid regular expression' : undefined
}

/** At most: the choices of each group, and whether each optional character is there, multiplied. */
const waysOf = (plain: string): number => {
  let ways = 1
  const choices = [1]
  for (const character of plain) {
    if (character === '(') choices.push(1)
    else if (character === '|') choices.push((choices.pop() ?? 1) + 1)
    else if (character === ')') ways *= choices.pop() ?? 1
    else if (character === '?') ways *= 2
  }
  return choices.reduce((product, count) => product * count, ways)
}

const checkNamespacePattern = (source: string): string | undefined => {
  const complaint = checkPattern(source)
  // A letter that begins the pattern, or each of its choices, begins no namespace.
  const isNever = source.split('|').every(choice => /^[\w-]+(?![\w-]*[*?{])/.test(choice))
  if (complaint !== undefined || !isNever) return complaint
  return `no namespace matches this pattern, because namespaces begin with /; write ${/^[\w-]+$/.test(source) ? `/${source} for the namespace, or ` : ''}'/\\/${source}/' for a pattern`
}

// Anchored at both ends, because a pattern must match the whole name.
const compile = (source: string): RegExp | undefined => {
  try {
    return new RegExp(`^(?:${source})$`, 'u')
  } catch {
    return undefined
  }
}
