// Checks the environment around our own variables: misspelt names, and Node.js options that weaken the process.

import { nearest } from '../values/spelling.ts'
import type { Environment, Reader } from './reader.ts'
import { VARIABLES } from './table.ts'

const PREFIXES = ['LDAP_', 'CLOUDIDP_', 'RATE_LIMIT_', 'JWT_']
const MAX_HEADER_BYTES = 64 * 1024

/** Set by the system, for OpenSSL, or by Kubernetes for each service of the namespace. */
export const EXEMPT =
  /^(?:HOME|PATH|SSL_CERT_FILE|SSL_CERT_DIR)$|_SERVICE_HOST$|_SERVICE_PORT|_PORT$|_PORT_\d+_(?:TCP|UDP|SCTP)/
const SHORT_LENGTH = 8

/**
 * An unknown name with one of our prefixes is a mistake, reported with the closest known name; any other that could be a
 * typing mistake causes a warning.
 */
export const checkNames = (reader: Reader, environment: Environment, warnings: string[]): void => {
  const known: ReadonlySet<string> = new Set(
    VARIABLES.flatMap(({ name, secret }) => (secret === true ? [name, `${name}_FILE`] : [name]))
  )
  for (const name of Object.keys(environment)) {
    if (known.has(name) || environment[name] === undefined || EXEMPT.test(name)) continue
    const shown = name.replace(/[^\w.-]/g, '?').slice(0, 60)
    const near = nearest(name, known)
    if (PREFIXES.some(prefix => name.toUpperCase().startsWith(prefix)))
      reader.mistake(shown, `is unknown; did you mean ${near?.name}? \`portaria env\` lists all variables`)
    else if (near !== undefined && near.edits <= (name.length <= SHORT_LENGTH ? 1 : 2))
      warnings.push(`${shown} is unknown and has no effect; did you mean ${near.name}?`)
  }
}

/** Bytes that are not UTF-8, as of a password in Latin-1, have been read as U+FFFD. Some editors and shells write U+FEFF first. */
export const checkEncoding = (reader: Reader, warnings: string[]): void => {
  for (const { name } of VARIABLES) {
    const text = reader.text(name) ?? ''
    if (text.includes('\uFFFD')) warnings.push(`${name} is not UTF-8, so it is not read as it was written`)
    if (text.startsWith('\uFEFF'))
      warnings.push(`${name} begins with a byte order mark, which is taken as a part of it`)
  }
}

/** Parser and TLS options of Node that disable what the gateway relies on. */
export const checkNode = (
  reader: Reader,
  environment: Environment,
  execArgv: readonly string[],
  warnings: string[]
): void => {
  if (environment.NODE_TLS_REJECT_UNAUTHORIZED === '0') {
    reader.mistake('NODE_TLS_REJECT_UNAUTHORIZED', 'must not disable the verification of certificates')
  }
  checkOptions(reader, 'NODE_OPTIONS', (environment.NODE_OPTIONS ?? '').match(/"(?:\\.|[^"])*"|\S+/g) ?? [], warnings)
  checkOptions(reader, 'command line of node', execArgv, warnings)
}

const checkOptions = (reader: Reader, place: string, options: readonly string[], warnings: string[]): void => {
  // Node treats `_` like `-` in the names of its options.
  const flags = options.map(option => option.replaceAll('"', '').replaceAll('_', '-'))
  if (flags.some(flag => flag === '--insecure-http-parser')) {
    reader.mistake(place, 'must not contain --insecure-http-parser, which makes request smuggling possible')
  }
  if (flags.some(flag => /^--inspect(?:-brk|-wait)?(?:=|$)/.test(flag)))
    warnings.push(`${place} contains --inspect: anyone who can reach the debugger port can run code in the gateway`)
  const at = flags.findLastIndex(flag => /^--max-http-header-size(?:=|$)/.test(flag))
  if (at === -1) return
  const size = flags[at]?.split('=')[1] ?? flags[at + 1]
  if (!/^\d+$/.test(size ?? '') || Number(size) > MAX_HEADER_BYTES) {
    reader.mistake(place, `must not contain a --max-http-header-size above ${MAX_HEADER_BYTES}`)
  }
}
