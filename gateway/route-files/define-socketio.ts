// The namespaces of a Socket.IO route are names, or patterns that cannot be made slow.

import type { SocketIoNamespace, SocketIoOptions } from '../routes/route.ts'
import { parseSize } from '../values/quantities.ts'
import type { SocketIoData } from './schema.ts'

type Complain = (message: string, ...path: (string | number)[]) => void

/** `data` has passed the schema. */
export const defineSocketIo = (data: SocketIoData, say: Complain): SocketIoOptions => ({
  namespaces: Object.entries(data.namespaces).map(([name, { roles }]) => defineNamespace(name, roles, say)),
  maxMessageBytes: parseSize(data.maxMessage ?? '1MB'),
  messagesPerSecond: data.messagesPerSecond ?? 1000
})

const defineNamespace = (name: string, roles: readonly string[] | undefined, say: Complain): SocketIoNamespace => {
  const source = name.length > 2 ? /^\/(.*)\/$/s.exec(name)?.[1] : undefined
  const complaint = source === undefined ? judgeName(name) : judgePattern(source)
  if (complaint !== undefined) say(complaint, 'socketio', 'namespaces', name)
  const pattern = source === undefined || complaint !== undefined ? undefined : compile(source)
  return { name, pattern, roles }
}

const judgeName = (name: string): string | undefined =>
  /^\/[^\s,?#\\]{0,199}$/.test(name) ? undefined : 'a namespace must begin with / and hold no blank, comma, ? or #'

// A repeated group, or many repetitions in a row, can take exponential or high polynomial time (ReDoS).
const judgePattern = (source: string): string | undefined => {
  if (source.length > 200) return 'a pattern must be at most 200 characters long'
  const plain = source.replace(/\\[^1-9k]/g, 'x').replace(/\[[^\]]*\]/g, 'x')
  if (/\\|\(\?[=!<]/.test(plain)) return 'a pattern must not use back references or look-around'
  if (/\)[*+{?]/.test(plain)) return 'a pattern must not repeat a group'
  if ((plain.match(/[*+]|\{[0-9]+,/g) ?? []).length > 2) return 'a pattern must not hold more than two repetitions'
  return compile(source) === undefined ? 'this is no valid regular expression' : undefined
}

// Anchored at both ends: a pattern means the whole name.
const compile = (source: string): RegExp | undefined => {
  try {
    return new RegExp(`^(?:${source})$`, 'u')
  } catch {
    return undefined
  }
}
