// Describes requests and responses of the admin API as JSON Schema, for validation, serialisation and documentation.
import { userProperties } from '../identity.ts'
import { accessSourceProperties } from '../store/access-sources.ts'

export const personItemSchema = {
  type: 'object',
  additionalProperties: false,
  required: [...Object.keys(userProperties), 'disabled', 'lastLoginAt', 'assigned', 'granted', 'groupsCutOff'],
  properties: {
    ...userProperties,
    disabled: { type: 'boolean' },
    lastLoginAt: { type: 'string', description: "ISO 8601, UTC; '' if never" },
    ...accessSourceProperties
  }
} as const

export const accessSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['profiles', 'areas', 'areaPrincipal'],
  properties: {
    profiles: {
      type: 'array',
      maxItems: 10,
      uniqueItems: true,
      items: { type: 'string', minLength: 1, maxLength: 64 }
    },
    areas: { type: 'array', maxItems: 500, uniqueItems: true, items: { type: 'string', minLength: 1, maxLength: 256 } },
    areaPrincipal: {
      type: ['string', 'null'],
      maxLength: 256,
      description: 'One of the areas; null only if there are none'
    }
  }
} as const

export const nameSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['name'],
  properties: { name: { type: 'string', minLength: 1, maxLength: 256 } }
} as const

export const namedSchema = {
  type: 'object',
  required: ['id', 'name'],
  properties: { id: { type: 'integer' }, name: { type: 'string' } }
} as const

export const auditItemSchema = {
  type: 'object',
  required: ['at', 'actor', 'action', 'target', 'targetName', 'before', 'after', 'requestId', 'ip', 'hash'],
  properties: {
    at: { type: 'string' },
    actor: {
      type: 'object',
      required: ['id', 'username'],
      properties: { id: { type: ['integer', 'null'] }, username: { type: 'string' } }
    },
    action: { type: 'string' },
    target: { type: 'string', description: '`user:<id>`, `area:<id>`, …' },
    targetName: {
      type: 'string',
      description: "Current name of that person, service account or area; '' if it no longer exists"
    },
    before: {},
    after: {},
    requestId: { type: 'string' },
    ip: { type: 'string' },
    hash: { type: 'string' }
  }
} as const
