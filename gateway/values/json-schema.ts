// Builds JSON Schemas of what the gateway's own endpoints receive and send.

export const string = { type: 'string' } as const
export const integer = { type: 'integer' } as const
export const boolean = { type: 'boolean' } as const

/** A text of at least one character. */
export const textUpTo = (maxLength: number) => ({ type: 'string', minLength: 1, maxLength }) as const

export const array = (items: object) => ({ type: 'array', items }) as const

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
export const optional = (properties: Properties) => closed(properties, Object.keys(properties))

/** A list of different names in a request. */
export const names = (maxItems: number, maxLength: number) => ({
  ...array(textUpTo(maxLength)),
  maxItems,
  uniqueItems: true
})
