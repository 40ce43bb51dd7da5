// Describes what several endpoints of the admin API receive and send, as JSON Schema.
import { userProperties } from '../http/own-requests.ts'
import { accessSourceProperties } from '../store/people.ts'
import { array, boolean, closed, integer, names, object, string } from '../values/json-schema.ts'

export const instanceSchema = {
  ...string,
  description: 'Host name and process id of the instance; a worker counts as one'
} as const

export const missingSchema = {
  ...array(string),
  description: 'Instances that did not reply within a second; * if Redis is unavailable, because there may be others'
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

export const nameSchema = closed({ name: { type: 'string', minLength: 1, maxLength: 256 } })

export const namedSchema = object({ id: integer, name: string })

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
