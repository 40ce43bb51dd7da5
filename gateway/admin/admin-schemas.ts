// Describes what several endpoints of the admin API receive and send, as JSON Schema, and reads times.
import { BadRequest } from '../errors.ts'
import { userProperties } from '../http/own-requests.ts'
import { accessSourceProperties } from '../store/people.ts'
import { array, boolean, closed, names, object, string } from '../values/json-schema.ts'
import { parseTimestamp } from '../values/quantities.ts'

export const instanceSchema = {
  ...string,
  description: 'Host name and process id of the instance; a worker counts as one'
} as const

export const missingSchema = {
  ...array(string),
  description:
    'Instances that did not reply within a second, or not in this form; * if Redis is unavailable, because there may be others'
} as const

export const personItemSchema = closed({
  ...userProperties,
  disabled: boolean,
  lastLoginAt: { ...string, description: "ISO 8601, UTC; '' if never" },
  ...accessSourceProperties
})

export const accessSchema = closed({
  profiles: names(100, 64),
  areas: names(500, 256),
  areaPrincipal: {
    type: ['string', 'null'],
    maxLength: 256,
    description: 'One of the areas; null only if there are none'
  }
})

export const auditItemSchema = object({
  at: string,
  actor: object({ id: { type: ['integer', 'null'] }, username: string }),
  action: string,
  target: { ...string, description: '`user:<id>`, `area:<id>`, …' },
  targetName: {
    ...string,
    description: "Current name of that person, service account or area; '' if it no longer exists"
  },
  before: {},
  after: {},
  requestId: string,
  ip: string,
  hash: string
})

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
