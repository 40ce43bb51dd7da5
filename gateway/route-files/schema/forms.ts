// Builds the parts of the schema: durations, sizes, flags, lists and maps, with the text that complaints and editors show.
import {
  DURATION_OR_ZERO_PATTERN,
  DURATION_PATTERN,
  MAX_TIMER_MS,
  parseDuration,
  SIZE_PATTERN
} from '../../values/quantities.ts'
import type { Complain } from '../complaint.ts'

/** Parts of a JSON Schema. */
export type Keywords = Readonly<Record<string, unknown>>

/** A JSON Schema; the type of what it accepts is known only to the compiler. */
export type Schema<T = unknown> = Keywords & { readonly [accepted]?: T }
declare const accepted: unique symbol

/** What has passed a schema. */
export type Accepted<S> = S extends { readonly [accepted]?: infer T } ? Exclude<T, undefined> : never

type Properties = Readonly<Record<string, Schema>>
type Fields<P extends Properties, Required extends keyof P> = {
  readonly [Name in Required]: Accepted<P[Name]>
} & { readonly [Name in Exclude<keyof P, Required>]?: Accepted<P[Name]> }

// `title` completes the sentence `"key" must be …` in complaints.
export const duration = (description: string, example: string, fallback?: string): Schema<string> => ({
  ...(fallback === undefined ? {} : { default: fallback }),
  title: 'a duration such as 500ms, 30s or 2m',
  description,
  examples: [example],
  type: 'string',
  pattern: DURATION_PATTERN
})

export const durationOrZero = (description: string, example: string, fallback: string): Schema<string | number> => ({
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

export const size = (description: string, example: string, fallback?: string): Schema<string | number> => ({
  ...(fallback === undefined ? {} : { default: fallback }),
  title: 'a size such as 512KB or 10MB, or a number of bytes',
  description,
  examples: [example],
  type: ['string', 'integer'],
  pattern: SIZE_PATTERN,
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER
})

export const flag = (description: string): Schema<boolean> => ({
  title: 'true or false',
  description,
  type: 'boolean',
  default: false,
  examples: [true]
})

export const text = (title: string, description: string, example: string, more: Keywords = {}): Schema<string> => ({
  title,
  description,
  examples: [example],
  type: 'string',
  minLength: 1,
  ...more
})

export const count = (description: string, example: number, more: Keywords = {}): Schema<number> => ({
  title: 'a whole number from 1',
  description,
  examples: [example],
  type: 'integer',
  minimum: 1,
  ...more
})

export const messageRate = (description: string, more: Keywords = {}) =>
  count(description, 100, { title: 'a number of messages from 1 to 20000', maximum: 20_000, ...more })

/** One of some words. */
export const word = <const T extends string>(values: readonly T[], more: Keywords = {}): Schema<T> => ({
  title: `one of ${values.join(', ')}`,
  enum: values,
  ...more
})

export const record = <P extends Properties, Required extends keyof P = never>(
  title: string,
  description: string,
  properties: P,
  more: Keywords & { readonly required?: readonly Required[] } = {}
): Schema<Fields<P, Required>> => ({
  title,
  description,
  type: 'object',
  additionalProperties: false,
  properties,
  ...more
})

/** Entries by names that the file chooses. */
export const mapOf = <T>(
  title: string,
  description: string,
  values: Schema<T>,
  example: Keywords,
  more: Keywords = {}
): Schema<Readonly<Record<string, T>>> => ({
  title,
  description,
  examples: [example],
  type: 'object',
  additionalProperties: values,
  ...more
})

export const list = <T>(
  title: string,
  description: string,
  items: Schema<T>,
  examples: readonly unknown[],
  more: Keywords = {}
): Schema<readonly T[]> => ({
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
