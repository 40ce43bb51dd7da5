// Reads the text of a variable as a value, or records its mistake under its name, never including the value.
import { closeSync, openSync, readSync } from 'node:fs'
import { isLoopbackHost } from '../values/addresses.ts'
import { readCertificateBundle } from '../values/certificates.ts'
import { DURATION_UNITS, MAX_TIMER_MS, parseDuration, parseSize } from '../values/quantities.ts'
import { ROWS, VARIABLES, type VariableName } from './table.ts'

export interface Mistake {
  readonly variable: string
  readonly message: string
}

export type Environment = Readonly<Record<string, string | undefined>>

interface Range {
  readonly min: number
  readonly max: number
}

export type Reader = ReturnType<typeof createReader>

/** Reads the variables of the table from an environment. After a mistake, a harmless value is returned. */
export const createReader = (environment: Environment) => {
  const mistakes: Mistake[] = []
  const mistake = (variable: string, message: string): void => {
    mistakes.push({ variable, message: isQuoted(environment[variable]) ? `${message}${QUOTED}` : message })
  }
  const fromFiles = readFiles(environment, mistake)
  const raw = (name: VariableName) => {
    const given = isServiceLink(environment, name) ? undefined : environment[name]
    return fromFiles.get(name) ?? clean(given, ROWS[name].secret === true)
  }
  const placeholders = new Set<string>()
  for (const { name } of VARIABLES) {
    // Whatever a file contains is meant.
    if (fromFiles.has(name) || !isPlaceholder(name, raw(name) ?? '')) continue
    placeholders.add(name)
    mistake(name, 'contains a placeholder that was not filled in')
  }

  // A placeholder reads as unset, because its own mistake is enough.
  const own = (name: VariableName) => (placeholders.has(name) ? undefined : raw(name))
  /** Trimmed; for secrets, only line breaks at the end are removed. The default if unset. */
  const text = (name: VariableName): string | undefined => own(name) ?? ROWS[name].fallback
  const number = <T>(
    name: VariableName,
    range: Range,
    parse: (value: string) => number,
    expected: string,
    unset: T
  ) => {
    const value = text(name)
    if (value === undefined) return unset
    const parsed = parse(value)
    if (parsed >= range.min && parsed <= range.max) return parsed
    mistake(name, expected)
    return range.min
  }
  const optionalInteger = (name: VariableName, range: Range) =>
    number(name, range, parseInteger, `must be a whole number from ${range.min} to ${range.max}`, undefined)
  /** Milliseconds. */
  const optionalDuration = (name: VariableName, range: Range = { min: 1, max: MAX_TIMER_MS }) => {
    const isPlain = name.endsWith('_MS')
    const forms = isPlain
      ? 'milliseconds, or 500ms, 30s, 10m, 8h, 1d'
      : 'a duration with its unit: 500ms, 30s, 10m, 8h, 1d'
    const bounds = `from ${formatDuration(range.min)} to ${formatDuration(range.max)}`
    const digits = isPlain ? /^\d{1,12}$/ : /^0$/
    // Zero is the same in any unit.
    const parse = (value: string) => (digits.test(value) ? Number(value) : parseDuration(value))
    return number(name, range, parse, `must be ${forms}; ${bounds}`, undefined)
  }
  /** Bytes. */
  const optionalSize = (name: VariableName) => {
    const parse = (value: string) => parseSize(/^\d{1,15}$/.test(value) ? Number(value) : value)
    const range = { min: 1, max: Number.MAX_SAFE_INTEGER }
    return number(name, range, parse, 'must be a size such as 512KB or 10MB, or a number of bytes', undefined)
  }
  return {
    mistakes,
    mistake,
    text,
    optionalInteger,
    optionalSize,
    optionalDuration,
    /** The same as `text`; one that `pattern` does not match is a mistake. */
    matching(name: VariableName, pattern: RegExp, expected: string): string | undefined {
      const value = text(name)
      if (value !== undefined && !pattern.test(value)) mistake(name, expected)
      return value
    },
    /** Whether it is set; an empty string counts as unset. */
    given: (name: VariableName) => raw(name) !== undefined,
    boolean(name: VariableName) {
      const value = text(name)?.toLowerCase()
      if (value === 'true' || value === 'false' || value === undefined) return value === 'true'
      mistake(name, 'must be true or false')
      return false
    },
    integer: (name: VariableName, range: Range) => optionalInteger(name, range) ?? range.min,
    duration: (name: VariableName, range?: Range) => optionalDuration(name, range) ?? 0,
    /** A percentage as a fraction of 1. */
    share(name: VariableName) {
      const [, percent] = /^(\d{1,3}(?:\.\d{1,3})?)\s*%$/.exec(text(name) ?? '') ?? []
      const share = Number(percent) / 100
      if (share > 0 && share <= 1) return share
      mistake(name, 'must be a percentage above 0% and at most 100%, such as 10%')
      return 1
    },
    /** Comma-separated entries, trimmed. */
    list: (name: VariableName) => entriesOf(text(name), () => mistake(name, 'contains an empty entry between commas'))
  }
}

/** Values of `<NAME>_FILE`, as container platforms provide secrets. One line break at the end is removed. */
const readFiles = (environment: Environment, mistake: (variable: string, message: string) => void) => {
  const values = new Map<string, string>()
  for (const { name, secret } of VARIABLES) {
    if (secret !== true) continue
    const variable = `${name}_FILE`
    const path = environment[variable]?.trim() ?? ''
    if (path === '') continue
    const { text: read, fault } = readText(path)
    const text = read?.replace(/\r?\n$/, '')
    if (clean(environment[name], true) !== undefined) mistake(variable, `must not be set together with ${name}`)
    else if (text === undefined) mistake(variable, `cannot be read: ${fault}`)
    else if (text === '') mistake(variable, 'names an empty file')
    else values.set(name, text)
  }
  return values
}

/** Far more than the certificates of all public CAs. */
const MAX_FILE_BYTES = 4 * 1024 * 1024

/** The contents of a file, or why it cannot be read. Some devices never end. */
export const readText = (path: string): { readonly text?: string; readonly fault?: string } => {
  try {
    const bytes = readUpTo(path, MAX_FILE_BYTES + 1)
    return bytes.length > MAX_FILE_BYTES ? { fault: 'it is larger than 4 MB' } : { text: bytes.toString() }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    return { fault: FAULTS[code] ?? code }
  }
}

const readUpTo = (path: string, most: number): Buffer => {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(most)
    let length = 0
    for (let read = -1; read !== 0; length += read) {
      read = readSync(file, bytes, length, most - length, null)
    }
    return bytes.subarray(0, length)
  } finally {
    closeSync(file)
  }
}

const FAULTS: Readonly<Record<string, string>> = {
  ENOENT: 'the file does not exist',
  EACCES: 'this user is not allowed to read it',
  EISDIR: 'it is a directory'
}

/** The CA certificates in the file that a setting names. */
export const readAuthorities = (reader: Reader, name: 'LDAP_CA_FILE' | 'REDIS_CA_FILE'): string | undefined => {
  const file = reader.text(name)
  if (file === undefined) return undefined
  const { text, fault } = readText(file)
  if (text === undefined) reader.mistake(name, `cannot be read: ${fault}`)
  else if (readCertificateBundle(text) === undefined || /PRIVATE KEY-----/.test(text))
    reader.mistake(name, 'must contain certificates in PEM format, and no private key')
  return text
}

/** Kubernetes sets OPS_PORT to `tcp://…` in each pod where there is a Service `ops`. */
const isServiceLink = (environment: Environment, name: VariableName): boolean =>
  name.endsWith('_PORT') &&
  /^(?:tcp|udp|sctp):\/\//.test(environment[name] ?? '') &&
  environment[name.replace(/PORT$/, 'SERVICE_HOST')] !== undefined

/** Docker's --env-file and systemd's Environment= keep quotes that a shell would remove. */
const isQuoted = (value: string | undefined): boolean => /^\s*(["']).*\1\s*$/s.test(value ?? '')

const QUOTED = '; the value includes its quotes: remove them'

const formatDuration = (milliseconds: number): string => {
  const [unit, size] = Object.entries(DURATION_UNITS).findLast(([, one]) => one <= Math.max(milliseconds, 1)) ?? [
    'ms',
    1
  ]
  return `${Math.floor(milliseconds / size)}${unit}`
}

const parseInteger = (text: string): number => (/^\d{1,15}$/.test(text) ? Number(text) : Number.NaN)

// A secret read from a file often ends in a line break; blanks may be part of it.
const clean = (value: string | undefined, isSecret: boolean): string | undefined => {
  const cleaned = isSecret ? value?.replace(/[\r\n]+$/, '') : value?.trim()
  return cleaned === '' ? undefined : cleaned
}

const entriesOf = (value: string | undefined, complain: () => void): string[] => {
  if (value === undefined) return []
  const entries = value.split(',').map(entry => entry.trim())
  if (entries.includes('')) complain()
  return entries.filter(entry => entry !== '')
}

// `${NAME}` and `$(NAME)` that no shell, Compose or Kubernetes expanded, a bare `$NAME`, or `<NAME>` from a manual.
const isPlaceholder = (name: VariableName, value: string): boolean => {
  // A password or key may contain anything; in an address, `{` is percent-encoded.
  const isOpaque = ROWS[name].secret === true && !name.endsWith('_URL')
  const entries = isOpaque && name !== 'JWT_PREVIOUS_SECRETS' ? [value] : value.split(',').map(entry => entry.trim())
  return entries.some(entry => PLACEHOLDER.test(entry)) || (!isOpaque && /\$\{[A-Za-z_][^}]*\}/.test(value))
}

const PLACEHOLDER = /^(?:\$\{[A-Za-z_]\w*\}|\$\([A-Za-z_]\w*\)|\$[A-Z_][A-Z0-9_]*|<[^<>]+>)$/

/** A URL from a setting, or undefined after recording the mistake. Never with userinfo or a fragment. */
export const checkUrl = (
  reader: Reader,
  name: VariableName,
  text: string,
  allow: { schemes?: readonly string[]; path?: boolean; query?: boolean } = {}
): URL | undefined => {
  const schemes = allow.schemes ?? ['https:', 'http:']
  const url = /^[a-z]+:\/\/[^/\\]/i.test(text) ? URL.parse(text) : null
  const mistake = (message: string) => {
    reader.mistake(name, message)
    return undefined
  }
  if (url === null || !schemes.includes(url.protocol) || url.hostname === '' || /[\s\\*]/.test(text))
    return mistake(
      `must be a URL that begins with ${schemes.map(scheme => `${scheme}//`).join(' or ')}, such as ${schemes[0]}//${schemes[0] === 'ldaps:' ? 'dc1.corp.example:636' : 'gateway.example.org'}`
    )
  if (url.username !== '' || url.password !== '') return mistake('must not contain a user or password')
  if (text.includes('#')) return mistake('must not have a fragment')
  if (text.includes('?') && allow.query !== true) return mistake('must not have a query')
  if (url.pathname.length > 1 && allow.path === false)
    return mistake(`must be an origin without a path, such as ${url.protocol}//HOST[:PORT]`)
  return url
}

/** An origin, or an origin with a path, without a trailing slash. */
export const baseUrl = (reader: Reader, name: VariableName, text: string, path: boolean): string => {
  const url = checkUrl(reader, name, text, { path })
  return url === undefined ? 'http://localhost' : `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

/** Whether traffic to it can be read in transit. */
export const isPlainBeyondLoopback = (url: URL): boolean => url.protocol === 'http:' && !isLoopbackHost(url.hostname)
