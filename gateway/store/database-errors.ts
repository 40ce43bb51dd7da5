// Distinguishes errors of Postgres: the database is unavailable, or the statement was wrong.
import { Unavailable } from '../errors.ts'

/** The database currently cannot be queried or written; clients get 503 `GW_UNAVAILABLE`. */
export class DatabaseUnavailable extends Unavailable {
  constructor(cause: unknown) {
    super({ cause, reason: 'database-unavailable' })
  }
}

/** SQLSTATE classes (PostgreSQL documentation, appendix A) and codes that concern the server, not our statement. */
const AWAY_CLASSES = new Set(['08', '28', '53', '57', '58', 'XX'])
const AWAY_CODES = new Set(['25006', '25P03', '3D000', '55P03', '40001', '40P01'])
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
  if (SOCKET_CODES.has(code) || AWAY_CODES.has(code)) return true
  if (code.length === 5) return AWAY_CLASSES.has(code.slice(0, 2))
  return DRIVER_TEXT.test(error.message) || LOST_RUNNER.test(error.name)
}

/** Two transactions conflicted (serialization failure, deadlock): the same work may succeed at once. */
export const isRetryable = (error: unknown): boolean => ['40001', '40P01'].includes(databaseCode(error))

/** A unique index rejected the row (SQLSTATE 23505). */
export const isUniqueViolation = (error: unknown): boolean => databaseCode(error) === '23505'

/** Waiting will not help: wrong credentials, or no such database. */
export const isMisconfigured = (error: unknown): boolean => /^(28|3D)/.test(databaseCode(error))
