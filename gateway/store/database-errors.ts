// Distinguishes errors of Postgres: the database is unavailable, or the statement was wrong; says what to do about it.
import { Unavailable } from '../errors.ts'

/** The database currently cannot be queried or written; clients get 503 `GW_UNAVAILABLE`. */
export class DatabaseUnavailable extends Unavailable {
  constructor(cause: unknown) {
    super({ cause, reason: 'database-unavailable' })
  }
}

/** SQLSTATE classes (PostgreSQL documentation, appendix A) and codes that concern the server, not our statement. */
const AWAY_CLASSES = new Set(['08', '28', '53', '57', '58', 'XX'])
const AWAY_CODES = new Set(['25006', '25P03', '25P04', '3D000', '55P03', '40001', '40P01'])
const SOCKET_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOENT',
  'EACCES',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EMFILE',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_PREMATURE_CLOSE'
])
// pg and pg-pool set no code for these.
const DRIVER_TEXT =
  /^(Error: )?(Connection terminated|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error|Client was closed|Cannot use a pool after calling end|The server does not support SSL|Driver not Connected|This socket has been ended)/

// TypeORM releases a query runner when its connection is lost, or when our deadline has ended it.
const LOST_RUNNER = /^QueryRunner(Provider)?AlreadyReleasedError$/

/** What ends a TLS connection, e.g. `ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC`, or EPROTO where OpenSSL names no reason. */
const TLS_FAULT = /^(ERR_SSL_|EPROTO$)/

/** SQLSTATE or system code of an error, also inside TypeORM's wrapper; `''` if there is none. */
export const databaseCode = (error: unknown): string => {
  if (!(error instanceof Error)) return ''
  if ('code' in error && typeof error.code === 'string') return error.code
  return 'driverError' in error ? databaseCode(error.driverError) : ''
}

/** Whether the server, or the connection to it, is at fault rather than the statement. */
export const isUnavailable = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError) return error.errors.some(isUnavailable)
  const code = databaseCode(error)
  if (SOCKET_CODES.has(code) || AWAY_CODES.has(code) || TLS_FAULT.test(code)) return true
  if (code.length === 5) return AWAY_CLASSES.has(code.slice(0, 2))
  return DRIVER_TEXT.test(error.message) || LOST_RUNNER.test(error.name)
}

/** Two transactions conflicted (serialization failure, deadlock, a row that both inserted): the same work may succeed at once. */
export const isRetryable = (error: unknown): boolean => ['40001', '40P01', '23505'].includes(databaseCode(error))

/** Waiting will not help: wrong credentials, no such database, or no TLS on which both sides agree. */
export const isMisconfigured = (error: unknown): boolean => /^(28|3D|ERR_SSL_)/.test(databaseCode(error))

/** What to do, by the code or text of the cause; SQLSTATE codes are from PostgreSQL's appendix A. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /ECONNREFUSED/,
    'Nothing listens at this address: start the database, or correct the host and port in DATABASE_URL.'
  ],
  [/ENOTFOUND|EAI_AGAIN/, 'The host name cannot be resolved: correct it in DATABASE_URL, or run this where it can be.'],
  [
    /ETIMEDOUT|timeout|EHOSTUNREACH|ENETUNREACH/,
    'The host does not respond: check the network and any firewall in between.'
  ],
  [/28P01|28000/, 'The user or the password was refused: correct them in DATABASE_URL (percent-encoded).'],
  [/authenticationOk/, 'The server asks for GSSAPI or SSPI: let pg_hba.conf ask this user for scram-sha-256.'],
  [/3D000/, 'There is no database with this name: create it, or correct the name in DATABASE_URL.'],
  [/42501/, 'The user lacks permission to change the schema: it must own the database.'],
  [/EEXIST|ENOTDIR|EACCES|EPERM|EROFS/, 'DATA_DIR must be a directory in which this user may write.'],
  [
    /PGlite failed/,
    'No space is left in DATA_DIR, or its files are damaged or not those of a database: free space, or restore a backup of it.'
  ],
  [/SSL/, 'The server and DATABASE_URL do not agree on TLS: add or remove sslmode=require in DATABASE_URL.']
]

export const databaseFault = (error: unknown): { readonly cause: string; readonly advice: string | undefined } => {
  const cause = causeOf(error)
  // Names of databases and users may contain what looks like a code.
  const unquoted = cause.replaceAll(/"[^"]*"/g, '')
  const [, advice] = ADVICE.find(([code]) => code.test(unquoted)) ?? []
  return { cause, advice }
}

// The deepest cause says what happened. Any addresses and names in it belong to the reader.
const causeOf = (error: unknown): string => {
  const cause = innermost(error)
  if (!(cause instanceof Error)) return 'unknown cause'
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  const [message = ''] = cause.message.split('\n', 1)
  return message.includes(code) ? message : [message, code].filter(text => text !== '').join(' ')
}

/** Of several, one for each host or each address of a name, the first. */
const innermost = (error: unknown): unknown => {
  const inner = error instanceof AggregateError ? error.errors[0] : error instanceof Error ? error.cause : undefined
  return inner instanceof Error ? innermost(inner) : error
}
