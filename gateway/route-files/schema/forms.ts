// Builds the parts of the schema: durations, sizes, flags, lists and maps, with the text that complaints and editors show.
import {
  DURATION_OR_ZERO_PATTERN,
  DURATION_PATTERN,
  MAX_TIMER_MS,
  parseDuration,
  SIZE_PATTERN
} from '../../values/quantities.ts'
import type { Complain } from '../complaint.ts'

export type Schema = Readonly<Record<string, unknown>>

// `title` completes the sentence `"key" must be …` in complaints.
export const duration = (description: string, example: string, fallback?: string): Schema => ({
  ...(fallback === undefined ? {} : { default: fallback }),
  title: 'a duration such as 500ms, 30s or 2m',
  description,
  examples: [example],
  type: 'string',
  pattern: DURATION_PATTERN
})

export const durationOrZero = (description: string, example: string, fallback: string): Schema => ({
  ...duration(description, example, fallback),
  title: 'a duration such as 30s or 5m, or 0',
  type: ['string', 'integer'],
  pattern: DURATION_OR_ZERO_PATTERN,
  minimum: 0,
  maximum: 0
})

/** Milliseconds of a duration for a timer, which can wait no longer than 24 days. @param path of the key, from its entry */
export const defineTimer = (written: string | number, say: Complain, ...path: string[]): number => {
  const milliseconds = parseDuration(written)
  if (milliseconds > MAX_TIMER_MS) say(`"${path.at(-1)}" must be at most 24d`, ...path)
  return milliseconds
}

export const size = (description: string, example: string, fallback?: string): Schema => ({
  ...(fallback === undefined ? {} : { default: fallback }),
  title: 'a size such as 512KB or 10MB, or a number of bytes',
  description,
  examples: [example],
  type: ['string', 'integer'],
  pattern: SIZE_PATTERN,
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER
})

export const flag = (description: string): Schema => ({
  title: 'true or false',
  description,
  type: 'boolean',
  default: false,
  examples: [true]
})

export const text = (title: string, description: string, example: string, more: Schema = {}): Schema => ({
  title,
  description,
  examples: [example],
  type: 'string',
  minLength: 1,
  ...more
})

export const count = (description: string, example: number, more: Schema = {}): Schema => ({
  title: 'a whole number from 1',
  description,
  examples: [example],
  type: 'integer',
  minimum: 1,
  ...more
})

export const messageRate = (description: string, more: Schema = {}): Schema => ({
  title: 'a number of messages from 1 to 20000',
  description,
  examples: [100],
  type: 'integer',
  minimum: 1,
  maximum: 20_000,
  ...more
})

export const record = (title: string, description: string, properties: Schema, more: Schema = {}): Schema => ({
  title,
  description,
  type: 'object',
  additionalProperties: false,
  properties,
  ...more
})

export const list = (
  title: string,
  description: string,
  items: Schema,
  examples: unknown[],
  more: Schema = {}
): Schema => ({
  title,
  description,
  examples: [examples],
  type: 'array',
  items,
  uniqueItems: true,
  minItems: 1,
  ...more
})

/** For a route, a namespace or an event. */
export const roles = list(
  'a list of roles',
  'Roles of which a person needs one. Without this key, any valid token passes.',
  text('the name of a profile', 'Admin, Supervisor, Agente, or a name listed under profiles.', 'Supervisor'),
  ['Admin', 'Supervisor']
)
