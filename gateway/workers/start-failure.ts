// Describes why the gateway cannot start, as one text for standard error.
import { formatComplaint, RouteFileError } from '../route-files/complaint.ts'
import { DatabaseUnavailable } from '../store/database-errors.ts'
import { databaseFault } from '../store/database-fault.ts'

/** The text says everything, so no stack is needed. */
export const isPlainFailure = (error: unknown): boolean =>
  error instanceof RouteFileError || error instanceof StartFailure

/** What a worker reported when it could not start. */
export class StartFailure extends Error {}

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
