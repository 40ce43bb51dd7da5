// Describes why the gateway cannot start, as one text for standard error.
import { formatComplaint, RouteFileError } from '../route-files/complaint.ts'
import { DatabaseUnavailable, databaseFault } from '../store/database-errors.ts'

/** Statuses with which the process exits, for service managers. */
export const EXIT = {
  /** In settings or route files: the next start fails too, until someone has mended it. */
  mistake: 1,
  /** EX_SOFTWARE of sysexits.h: the next start may well succeed. */
  fault: 70,
  /** EX_TEMPFAIL: something that the gateway needs is away or taken. */
  notNow: 75
} as const

/** The text says everything, so no stack is needed. */
export const isPlainFailure = (error: unknown): boolean =>
  error instanceof RouteFileError || error instanceof StartFailure

/** What a worker reported when it could not start. */
export class StartFailure extends Error {
  readonly status: number

  constructor(message: string, status: number = EXIT.notNow) {
    super(message)
    this.status = status
  }
}

export const exitStatusOf = (error: unknown): number => {
  if (error instanceof StartFailure) return error.status
  return error instanceof RouteFileError ? EXIT.mistake : EXIT.notNow
}

export const failureText = (error: unknown): string => {
  if (error instanceof StartFailure) return error.message
  if (error instanceof RouteFileError) return error.complaints.map(formatComplaint).join('\n')
  if (!(error instanceof Error)) return 'The gateway cannot start'
  if (error instanceof DatabaseUnavailable) {
    const { cause, advice } = databaseFault(error)
    return `The gateway cannot start: the database cannot be used: ${cause}${advice === undefined ? '' : `. ${advice}`}`
  }
  // PostgreSQL, appendix A: insufficient_privilege.
  const advice = 'code' in error && error.code === '42501' ? ': let the role of DATABASE_URL own the database' : ''
  return `The gateway cannot start: ${error.message}${advice}`
}
