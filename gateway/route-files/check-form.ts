// Validates the form of a route file, and turns each deviation into a sentence with its place.
import { Ajv, type ErrorObject } from 'ajv'
import { stringify } from 'yaml'
import { isRecord } from '../values/records.ts'
import { nearestHint } from '../values/spelling.ts'
import { type Complaint, complain } from './complaint.ts'
import { keyHint, valueHint } from './hints/values.ts'
import type { YamlDocument } from './parse.ts'
import { type RouteFileData, routeFileSchema } from './schema/route-file-schema.ts'

interface Verdict {
  readonly complaints: readonly Complaint[]
  /** Whether the part at this path, with everything below it, has the right form. */
  isSound(...path: (string | number)[]): boolean
  /** A map without the keys that have a wrong form; undefined if it is not a map. */
  soundPart<T extends object>(value: T, ...path: (string | number)[]): Partial<T> | undefined
}

export interface RouteFile {
  readonly name: string
  readonly document: YamlDocument
  readonly data: RouteFileData
  readonly verdict: Verdict
}

/** The entries of a list, which may have a wrong form. */
export const listOf = <T>(value: unknown): readonly T[] => (Array.isArray(value) ? value : [])

type Path = readonly string[]

// Optimising the code takes a third as long as generating it, at every start, and it runs once per file. Validating the schema
// itself takes as long again, so a test does that.
const ajv = new Ajv({ allErrors: true, verbose: true, strict: false, validateSchema: false, code: { optimize: false } })
const validate = ajv.compile(routeFileSchema)

const SOUND: Verdict = {
  complaints: [],
  isSound: () => true,
  soundPart: value => (isRecord(value) ? value : undefined)
}

/** Validates the value of a document against the schema. Nothing is coerced, and no defaults are filled in. */
export const checkSchema = (document: YamlDocument): Verdict => {
  if (validate(document.value)) return SOUND
  const errors = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'propertyNames' && keyword !== 'if')
  const faults = errors.map(error => ({ path: pathOf(error), error }))
  const faulty = new Set(faults.map(({ path }) => keyOf(path)))
  const above = new Set(faults.flatMap(({ path }) => path.map((_, index) => keyOf(path.slice(0, index)))))
  const isSound: Verdict['isSound'] = (...path) =>
    !above.has(keyOf(path)) && !path.some((_, index) => faulty.has(keyOf(path.slice(0, index + 1)))) && !faulty.has('')
  return {
    complaints: faults.map(({ path, error }) => toComplaint(document, path, error)),
    isSound,
    soundPart<T extends object>(value: T, ...path: (string | number)[]) {
      if (!isRecord(value)) return undefined
      const sound = Object.entries(value).filter(([key]) => isSound(...path, key))
      return Object.fromEntries(sound) as Partial<T>
    }
  }
}

const keyOf = (path: readonly (string | number)[]): string => path.map(step => `/${step}`).join('')

const pathOf = (error: ErrorObject): string[] => {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  const key = error.propertyName ?? error.params.additionalProperty ?? error.params.missingProperty
  return typeof key === 'string' ? [...path, key] : path
}

const toComplaint = (document: YamlDocument, path: Path, error: ErrorObject): Complaint => {
  const isAboutKey = error.keyword === 'additionalProperties' || error.propertyName !== undefined
  return complain(
    document.locationOf(locate(document.value, path), isAboutKey ? 'key' : 'value'),
    sentence(path, error)
  )
}

// Indexes of lists are numbers.
const locate = (value: unknown, path: Path): (string | number)[] => {
  let part = value
  return path.map(step => {
    const isList = Array.isArray(part)
    part = typeof part === 'object' && part !== null ? (part as Record<string, unknown>)[step] : undefined
    return isList ? Number(step) : step
  })
}

const sentence = (path: Path, error: ErrorObject): string => {
  const { keyword, params, parentSchema, data } = error
  const name = nameOf(path)
  const title: unknown = parentSchema?.title
  if (keyword === 'additionalProperties') {
    const key = String(params.additionalProperty)
    const known = Object.keys(parentSchema?.properties ?? {})
    const isHeader = path.length === 4 && /^(?:request|response)Headers$/.test(path[2] ?? '')
    const lead = isHeader ? ` (a header goes under "set": set: { ${key.split(':', 1)[0]}: … })` : ''
    return `unknown key "${shownKey(key, path)}"${keyHint(key, known) || lead}; allowed here: ${known.join(', ')}`
  }
  if (keyword === 'required') {
    const owner = path.slice(0, -1)
    const subject = isIndex(owner.at(-1)) || owner.length === 0 ? title : nameOf(owner)
    return `${subject} needs the key "${params.missingProperty}"${exampleOf(parentSchema, ', as in')}`
  }
  if (keyword === 'uniqueItems') return `${name} contains the same entry twice`
  if (keyword === 'minItems' || keyword === 'minProperties')
    return `${name} must not be empty${exampleOf(parentSchema, '; write at least one entry, as in')}`
  if (keyword === 'enum' && typeof data === 'string') {
    const known = Array.isArray(params.allowedValues) ? params.allowedValues.map(String) : []
    return `unknown value "${data}"${nearestHint(data, known) || `: must be ${title}`}`
  }
  const isNamed = error.propertyName !== undefined || path.includes('set')
  const hint = isNamed ? '' : valueHint(parentSchema ?? {}, path, data)
  const example = hint.startsWith('; write') ? '' : exampleOf(parentSchema)
  return `${name} must be ${title ?? error.message}${example}${hint}`
}

/** The form of a map or list, where it may not be empty. */
const exampleOf = (schema: ErrorObject['parentSchema'], lead = ', such as'): string => {
  const isShown = schema?.type === 'object' || schema?.type === 'array'
  const [example]: unknown[] = isShown && Array.isArray(schema.examples) ? schema.examples : []
  if (typeof example !== 'object' || example === null || Object.keys(example).length === 0) return ''
  return `${lead} ${stringify(example, { collectionStyle: 'flow', lineWidth: 0 }).trimEnd()}`
}

const isIndex = (step: string | undefined): boolean => step !== undefined && /^[0-9]+$/.test(step)

const nameOf = (path: Path): string => {
  const last = path.at(-1)
  if (last === undefined) return 'the file'
  return isIndex(last) && path.length > 1 ? `an entry of "${path.at(-2)}"` : `"${shownKey(last, path)}"`
}

/** Without a space after its colon, the value of a header, which may be a secret, is part of the key. */
const shownKey = (key: string, path: Path): string =>
  path.some(step => /^(?:request|response)Headers$/.test(step)) ? key.replace(/:.+$/s, ':…') : key
