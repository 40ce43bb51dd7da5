// Builds the lines of a response head: the status, the given fields, and the Date (RFC 9112 §4, RFC 9110 §6.6.1).
import { ownText } from '../../values/own-text.ts'

const { STATUS_CODES } = process.getBuiltinModule('node:http')

// Flat, like all text that is written again and again: V8 puts concatenated text together again at every write.
const standardLines = new Map(
  Object.entries(STATUS_CODES).map(([code, reason]) => [Number(code), ownText(`HTTP/1.1 ${code} ${reason}\r\n`)])
)

/** @param reason the standard phrase if undefined */
export const statusLine = (status: number, reason: string | undefined): string => {
  const standard = standardLines.get(status)
  if (standard !== undefined && (reason === undefined || reason === STATUS_CODES[status])) return standard
  return `HTTP/1.1 ${status} ${reason ?? ''}\r\n`
}

let dateText = ''
let dateUntil = 0

/** The Date field as a line (RFC 9110 §6.6.1), built once per second, and again if the clock is set back. */
export const dateLine = (): string => {
  const now = Date.now()
  if (now >= dateUntil || now < dateUntil - 1000) {
    dateText = ownText(`date: ${new Date(now).toUTCString()}\r\n`)
    dateUntil = now - (now % 1000) + 1000
  }
  return dateText
}

/** `[name, value, …]` as lines of a head, each ending in CRLF. */
export const headerLines = (headers: readonly string[]): string => {
  let lines = ''
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const value = headers[i + 1] ?? ''
    // biome-ignore lint/style/useTemplate: V8 converts what a template holds, and adds known strings as they are.
    lines += name + ': ' + value + '\r\n'
  }
  return lines
}

export const isDated = (headers: readonly string[]): boolean => {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'date') return true
  }
  return false
}
