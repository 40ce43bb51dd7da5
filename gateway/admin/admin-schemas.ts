// Provides short forms of JSON Schema, and with them describes what several endpoints of the admin API receive and send.
import { userProperties } from '../identity.ts'
import { accessSourceProperties } from '../store/people.ts'

export const string = { type: 'string' } as const
export const integer = { type: 'integer' } as const
export const boolean = { type: 'boolean' } as const

export const array = (items: object) => ({ type: 'array', items }) as const

export const instanceSchema = {
  ...string,
  description: 'Host name and process id of the instance; a worker counts as one'
} as const

export const missingSchema = {
  ...array(string),
  description: 'Instances that did not reply within a second; * if Redis is unavailable, because there may be others'
} as const

type Properties = Readonly<Record<string, object>>

/** All properties are required, except these. */
export const object = (properties: Properties, except: readonly string[] = []) => ({
  type: 'object' as const,
  required: Object.keys(properties).filter(name => !except.includes(name)),
  properties
})

/** An object without any other properties. */
export const closed = (properties: Properties, except: readonly string[] = []) => ({
  ...object(properties, except),
  additionalProperties: false
})

/** An object that may have any of these properties and no others, such as a query. */
export const optional = (properties: Properties) => ({
  type: 'object' as const,
  additionalProperties: false,
  properties
})

/** A list of different names in a request. */
export const names = (maxItems: number, maxLength: number) =>
  ({
    type: 'array',
    maxItems,
    uniqueItems: true,
    items: { type: 'string', minLength: 1, maxLength }
  }) as const

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
