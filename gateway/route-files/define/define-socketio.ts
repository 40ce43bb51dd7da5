// Reads the namespaces and events of a Socket.IO route: names, or patterns that cannot be made slow.

import type { SocketIoEvent, SocketIoNamespace, SocketIoOptions } from '../../routes/route.ts'
import { isReservedEvent } from '../../routes/socketio-rules.ts'
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
    pattern: definePattern(name, judgeNamespace, message => say(message, ...place)),
    roles,
    events:
      events &&
      Object.entries(events).map(
        ([event, rule]): SocketIoEvent => ({
          name: event,
          pattern: definePattern(event, judgeEvent, message => say(message, ...place, 'events', event)),
          roles: rule.roles
        })
      )
  }
}

/** The pattern in a name written as `/regex/`; undefined: a plain name. */
const definePattern = (
  name: string,
  judgeName: (name: string) => string | undefined,
  say: (message: string) => void
): RegExp | undefined => {
  const source = name.length > 2 ? /^\/(.*)\/$/s.exec(name)?.[1] : undefined
  const complaint = source === undefined ? judgeName(name) : judgePattern(source)
  if (complaint !== undefined) say(complaint)
  return source === undefined || complaint !== undefined ? undefined : compile(source)
}

const judgeNamespace = (name: string): string | undefined =>
  /^\/[^\s,?#\\"'[\]{}]{0,199}$/.test(name)
    ? undefined
    : `a namespace must begin with / and must not contain a space, comma, ?, #, quote or bracket${/^[\w-]{1,60}$/.test(name) ? `; write /${name}` : ''}`

const judgeEvent = (name: string): string | undefined => {
  if (!/^[^\p{Cc}]{1,200}$/u.test(name)) return 'the name of an event must have 1 to 200 characters'
  return isReservedEvent(name)
    ? `no client may send the event "${name}": it has a special meaning for servers`
    : undefined
}

// A repeated group, or many repetitions in a row, can take exponential or high polynomial time (ReDoS).
const judgePattern = (source: string): string | undefined => {
  if (source.length > 200) return 'a pattern must be at most 200 characters long'
  const plain = source.replace(/\\[^1-9k]/g, 'x').replace(/\[[^\]]*\]/g, 'x')
  if (/\\|\(\?[=!<]/.test(plain)) return 'a pattern must not use backreferences or lookaround'
  if (/\)[*+{?]/.test(plain)) return 'a pattern must not repeat a group'
  if ((plain.match(/[*+]|\{[0-9]+,/g) ?? []).length > 2) return 'a pattern must not contain more than two repetitions'
  return compile(source) === undefined ? 'this is not a valid regular expression' : undefined
}

// Anchored at both ends, because a pattern must match the whole name.
const compile = (source: string): RegExp | undefined => {
  try {
    return new RegExp(`^(?:${source})$`, 'u')
  } catch {
    return undefined
  }
}
