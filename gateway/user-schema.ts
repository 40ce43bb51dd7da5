// The user object and the answer of a login as JSON Schema, for serialising and for the OpenAPI document.

const strings = { type: 'array', items: { type: 'string' } } as const

export const userProperties = {
  id: { type: 'integer' },
  name: { type: 'string' },
  email: { type: 'string' },
  username: { type: 'string' },
  provider: { type: 'string', enum: ['ldap', 'cloudidp', 'client'] },
  perfis: strings,
  profiles: strings,
  areas: strings,
  areaPrincipal: { type: 'string' },
  accessStatus: { type: 'string', enum: ['assigned', 'unassigned'] }
} as const

export const userSchema = {
  type: 'object',
  additionalProperties: false,
  required: Object.keys(userProperties),
  properties: userProperties
} as const

export const tokenAnswerSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['token', 'user'],
  properties: { token: { type: 'string' }, user: userSchema }
} as const
