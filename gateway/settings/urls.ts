// Addresses in settings are what they seem: an allowed scheme, a host, and nothing in them that does not belong there.
import { isLoopbackHost } from '../values/addresses.ts'
import type { Reader } from './reader.ts'
import type { VariableName } from './table.ts'

/** A URL of a setting, or undefined after noting the mistake. Never with userinfo or a fragment. */
export const judgeUrl = (
  reader: Reader,
  name: VariableName,
  text: string,
  allow: { schemes?: readonly string[]; path?: boolean; query?: boolean } = {}
): URL | undefined => {
  const schemes = allow.schemes ?? ['https:', 'http:']
  const url = URL.canParse(text) && /^[a-z]+:\/\/[^/\\]/i.test(text) ? new URL(text) : undefined
  const mistake = (message: string) => {
    reader.mistake(name, message)
    return undefined
  }
  if (url === undefined || !schemes.includes(url.protocol) || url.hostname === '' || /[\s\\*]/.test(text))
    return mistake(`must be an address that begins with ${schemes.map(scheme => `${scheme}//`).join(' or ')}`)
  if (url.username !== '' || url.password !== '') return mistake('must not hold a user or password')
  if (text.includes('#')) return mistake('must not have a fragment')
  if (text.includes('?') && allow.query !== true) return mistake('must not have a query')
  if (url.pathname.length > 1 && allow.path === false) return mistake('must be an origin: scheme, host and port only')
  return url
}

/** An origin, or an origin with a path, without a trailing slash. */
export const baseUrl = (reader: Reader, name: VariableName, text: string, path: boolean): string => {
  const url = judgeUrl(reader, name, text, { path })
  return url === undefined ? 'http://localhost' : `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

/** Whether what is sent there can be read on the way. */
export const isPlainBeyondLoopback = (url: URL): boolean => url.protocol === 'http:' && !isLoopbackHost(url.hostname)
