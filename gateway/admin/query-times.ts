// Reads times from queries: ISO 8601 with an offset, or milliseconds since the epoch.
import { BadRequest } from '../errors.ts'

export const timeProperty = (description: string) =>
  ({
    type: 'string',
    pattern: '^(?:\\d{1,15}|\\d{4}-\\d\\d-\\d\\dT[0-9:.]{5,12}(?:Z|[+-]\\d\\d:\\d\\d))$',
    description
  }) as const

/** ms since the epoch; @throws 400 for dates that do not exist */
export const readTime = (name: string, text: string | undefined): number | undefined => {
  if (text === undefined) return undefined
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(text)
  if (Number.isNaN(ms))
    throw new BadRequest({ message: `querystring/${name} is not a valid time`, reason: 'invalid-request' })
  return ms
}
