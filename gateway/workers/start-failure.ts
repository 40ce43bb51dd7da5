// Describes why the gateway cannot start, as one text for standard error.
import { formatComplaint, RouteFileError } from '../route-files/complaint.ts'

/** The text alone says all there is to know: no stack is needed beside it. */
export const isPlainFailure = (error: unknown): boolean =>
  error instanceof RouteFileError || error instanceof StartFailure

/** What a worker said when it could not start. */
export class StartFailure extends Error {}

export const failureText = (error: unknown): string => {
  if (error instanceof StartFailure) return error.message
  if (error instanceof RouteFileError) return error.complaints.map(formatComplaint).join('\n')
  return error instanceof Error ? `The gateway cannot start: ${error.message}` : 'The gateway cannot start'
}
