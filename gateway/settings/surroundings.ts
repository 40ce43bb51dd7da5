// Checks the environment around our own variables: misspelt names, and Node.js options that weaken the process.

import { nearest } from '../values/spelling.ts'
import type { Environment, Reader } from './reader.ts'
import { VARIABLES, type VariableName } from './table.ts'

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
    VARIABLES.flatMap(({ name, file }) => (file === true ? [name, `${name}_FILE`] : [name]))
  )
  for (const name of Object.keys(environment)) {
    if (known.has(name) || environment[name] === undefined || EXEMPT.test(name)) continue
    const shown = name.replace(/[^\w.-]/g, '?').slice(0, 60)
    if (PREFIXES.some(prefix => name.toUpperCase().startsWith(prefix)))
      reader.mistake(shown, `is unknown; did you mean ${meantBy(name, known)}? \`portaria env\` lists all variables`)
    else {
      const near = nearest(name, known)
      if (near !== undefined && near.edits <= (name.length <= SHORT_LENGTH ? 1 : 2))
        warnings.push(`${shown} is unknown and has no effect; did you mean ${near.name}?`)
    }
  }
}

/** Parser and TLS options of Node that disable what the gateway relies on. */
export const checkNode = (reader: Reader, environment: Environment, execArgv: readonly string[]): void => {
  if (environment.NODE_TLS_REJECT_UNAUTHORIZED === '0') {
    reader.mistake('NODE_TLS_REJECT_UNAUTHORIZED', 'must not disable the verification of certificates')
  }
  checkOptions(reader, 'NODE_OPTIONS', (environment.NODE_OPTIONS ?? '').match(/"(?:\\.|[^"])*"|\S+/g) ?? [])
  checkOptions(reader, 'command line of node', execArgv)
}

const checkOptions = (reader: Reader, place: string, options: readonly string[]): void => {
  // Node treats `_` like `-` in the names of its options.
  const flags = options.map(option => option.replaceAll('"', '').replaceAll('_', '-'))
  if (flags.some(flag => flag === '--insecure-http-parser')) {
    reader.mistake(place, 'must not contain --insecure-http-parser, which makes request smuggling possible')
  }
  const at = flags.findLastIndex(flag => /^--max-http-header-size(?:=|$)/.test(flag))
  if (at === -1) return
  const size = flags[at]?.split('=')[1] ?? flags[at + 1]
  if (!/^\d+$/.test(size ?? '') || Number(size) > MAX_HEADER_BYTES) {
    reader.mistake(place, `must not contain a --max-http-header-size above ${MAX_HEADER_BYTES}`)
  }
}

/** Our variables' names in other gateways and libraries. */
const OTHER_NAMES: Readonly<Partial<Record<VariableName, readonly string[]>>> = {
  LDAP_SEARCH_BASE: ['LDAP_BASE', 'LDAP_BASE_DN', 'LDAP_BASEDN'],
  LDAP_URL: ['LDAP_HOST', 'LDAP_SERVER', 'LDAP_URI'],
  LDAP_BIND_DN: ['LDAP_USER', 'LDAP_USERNAME'],
  LDAP_BIND_PASSWORD: ['LDAP_PASSWORD'],
  LDAP_SEARCH_FILTER: ['LDAP_FILTER', 'LDAP_USER_FILTER'],
  LDAP_STARTTLS: ['LDAP_START_TLS'],
  LDAP_CA_FILE: ['LDAP_CA'],
  JWT_EXPIRES_IN: ['JWT_EXPIRATION', 'JWT_EXPIRY', 'JWT_TTL'],
  JWT_SECRET: ['JWT_KEY'],
  CLOUDIDP_CLIENT_SECRET: ['CLOUDIDP_SECRET'],
  CLOUDIDP_REDIRECT_URI: ['CLOUDIDP_REDIRECT_URL', 'CLOUDIDP_CALLBACK_URL'],
  CLOUDIDP_ISSUER: ['CLOUDIDP_DISCOVERY_URL'],
  RATE_LIMIT_MAX: ['RATE_LIMIT', 'RATE_LIMIT_REQUESTS'],
  RATE_LIMIT_TTL_MS: ['RATE_LIMIT_WINDOW', 'RATE_LIMIT_WINDOW_MS']
}

/** The variable of that meaning, or the known one with the smallest edit distance. */
const meantBy = (name: string, known: ReadonlySet<string>): string => {
  const variable = VARIABLES.find(one => OTHER_NAMES[one.name]?.includes(name.toUpperCase()))
  return variable?.name ?? nearest(name, known)?.name ?? ''
}
