// Reads times from queries: RFC 3339 dates and date-times, as everywhere.
import { BadRequest } from '../errors.ts'
import { parseTimestamp } from '../values/timestamps.ts'

export const timeProperty = (description: string) => ({ type: 'string', maxLength: 64, description }) as const

/** @throws 400 for anything else, and for dates that do not exist */
export const readTime = (name: string, text: string | undefined): Date | undefined => {
  if (text === undefined) return undefined
  const time = parseTimestamp(text)
  if (time !== undefined) return time
  throw new BadRequest({
    message: `querystring/${name} must be a time such as 2027-06-30 or 2027-06-30T18:00:00Z`,
    reason: 'invalid-request'
  })
}
