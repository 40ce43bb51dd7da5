// A YAML text that differs from the one before it inside a long list only has been read, the entries that differ alone.
import { isDeepStrictEqual } from 'node:util'
import { placesIn, readYaml, type YamlDocument } from './parse.ts'

/** A text without faults, in which a block list of maps lies at a top-level key. */
interface Known {
  readonly text: string
  readonly value: object
  readonly entries: Entries
  /** Whether no other key follows the list. */
  readonly isLast: boolean
  /** Offsets of other parts that were asked for. */
  readonly offsets: Map<string, number>
}

interface Entries {
  readonly values: readonly unknown[]
  /** Where the line of each entry begins. */
  readonly starts: readonly number[]
  /** What stands on that line before each entry: blanks, a hyphen, a blank. */
  readonly marker: string
}

/**
 * What lay between `start` and `knownEnd`, the entries from `first` to before `last`, ends at `end` now. The first of
 * them did not change, nor did the last, at the index `same`, where that is not -1.
 */
interface Edit {
  readonly first: number
  readonly last: number
  readonly start: number
  readonly knownEnd: number
  readonly end: number
  readonly same: number
}

type Path = Parameters<YamlDocument['placeOf']>[0]
type Part = Parameters<YamlDocument['placeOf']>[1]

interface YamlMemory {
  /**
   * Reads as `readYaml`, and remembers of each file the last text without faults. Of a text that differs from it inside
   * the list only those entries are read that differ, and their neighbours; anything else is read whole.
   */
  read(text: string, file: string): YamlDocument
  /** Forgets files that were not read since the last call. */
  forgetOthers(): void
}

/** `list`: the top-level key of the list. */
export const createYamlMemory = (list: string): YamlMemory => {
  const memory = new Map<string, Known>()
  const seen = new Set<string>()
  return {
    read(text, file) {
      seen.add(file)
      const known = memory.get(file)
      const edited = known && readEdited(known, list, text, file)
      const whole = edited?.document ?? readYaml(text, file)
      const next = edited?.known ?? learn(whole, list, text)
      if (next === undefined) return whole
      memory.set(file, next)
      return {
        ...whole,
        placeOf(path, part) {
          if (path[0] !== list) next.offsets.set(keyOf(path, part), whole.offsetOf(path, part))
          return whole.placeOf(path, part)
        }
      }
    },
    forgetOthers() {
      for (const file of memory.keys()) if (!seen.has(file)) memory.delete(file)
      seen.clear()
    }
  }
}

const keyOf = (path: Path, part: Part = 'value'): string => JSON.stringify([part, ...path])

const learn = (document: YamlDocument, list: string, text: string): Known | undefined => {
  const { value } = document
  if (!isSimple(document, text) || !isMap(value) || !(list in value)) return undefined
  const entries = entriesOf(document, text, Reflect.get(value, list), [list])
  if (entries === undefined) return undefined
  const listStart = document.offsetOf([list])
  const isLast = Object.keys(value).every(key => key === list || document.offsetOf([key], 'key') < listStart)
  return { text, value, entries, isLast, offsets: new Map() }
}

/** Whether a part of the text means the same without the rest of it. */
const isSimple = ({ complaints, hasAnchors }: YamlDocument, text: string): boolean =>
  complaints.length === 0 && !hasAnchors && !/^%/m.test(text)

const isMap = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)

const entriesOf = (document: YamlDocument, text: string, values: unknown, path: Path): Entries | undefined => {
  if (!Array.isArray(values) || values.length === 0 || !values.every(isMap)) return undefined
  const offsets = values.map((_, index) => document.offsetOf([...path, index]))
  const starts = offsets.map(offset => text.lastIndexOf('\n', offset) + 1)
  const marker = text.slice(starts[0], offsets[0])
  const isAlike = offsets.every((offset, index) => text.slice(starts[index], offset) === marker)
  return isAlike && /^ *- $/.test(marker) ? { values, starts, marker } : undefined
}

const readEdited = (known: Known, list: string, text: string, file: string) => {
  const edit = findEdit(known, text)
  if (edit === undefined) return undefined
  const part = text.slice(edit.start, edit.end)
  // What ends the document ends the list.
  if (/^(?:---|\.\.\.)/m.test(part)) return undefined
  const document = readYaml(part, file, 1)
  const read = isSimple(document, part) ? entriesOf(document, part, document.value, []) : undefined
  if (read === undefined || !hasSameNeighbours(known.entries, edit, read)) return undefined
  return replaceEntries(known, list, { text, file, edit, read })
}

/** The parser takes more along from one entry to the next than it should: what did not change must be read as before. */
const hasSameNeighbours = ({ values, starts, marker }: Entries, edit: Edit, read: Entries): boolean => {
  const isSame = (index: number, at: number, moved: number) =>
    read.starts[at] === (starts[index] ?? 0) + moved - edit.start && isDeepStrictEqual(read.values[at], values[index])
  if (read.marker !== marker || !isSame(edit.first, 0, 0)) return false
  const { same, end, knownEnd } = edit
  return same === -1 || (read.starts.length > 1 && isSame(same, read.starts.length - 1, end - knownEnd))
}

const findEdit = ({ text: before, entries: { starts, marker }, isLast }: Known, text: string): Edit | undefined => {
  const shorter = Math.min(before.length, text.length)
  let prefix = 0
  while (prefix < shorter && before.charCodeAt(prefix) === text.charCodeAt(prefix)) prefix++
  const changed = starts.findLastIndex(start => start + marker.length <= prefix)
  const first = changed - 1
  const start = starts[first]
  if (start === undefined) return undefined
  const most = shorter - prefix
  let suffix = 0
  while (suffix < most && before.charCodeAt(before.length - 1 - suffix) === text.charCodeAt(text.length - 1 - suffix))
    suffix++
  const same = starts.findIndex((start, index) => index > changed && start >= before.length - suffix)
  const last = same === -1 ? starts.length : same + 1
  // Where the last entry ends is not known; without anything behind it, it is the end of the text.
  if (last === starts.length && !isLast) return undefined
  const knownEnd = starts[last] ?? before.length
  const end = text.length - (before.length - knownEnd)
  return { first, last, start, knownEnd, end, same }
}

interface Replacement {
  readonly text: string
  readonly file: string
  readonly edit: Edit
  readonly read: Entries
}

const replaceEntries = (known: Known, list: string, { text, file, edit, read }: Replacement) => {
  const { values, starts, marker } = known.entries
  const moved = edit.end - edit.knownEnd
  const entries: Entries = {
    values: [...values.slice(0, edit.first), ...read.values, ...values.slice(edit.last)],
    starts: [
      ...starts.slice(0, edit.first),
      ...read.starts.map(start => start + edit.start),
      ...starts.slice(edit.last).map(start => start + moved)
    ],
    marker
  }
  let whole: YamlDocument | undefined
  const offsetOf = (path: Path, part: Part): number => {
    const start = path[0] === list && path.length === 2 && part !== 'key' ? entries.starts[Number(path[1])] : undefined
    if (start !== undefined) return start + marker.length
    const before = path[0] === list ? undefined : known.offsets.get(keyOf(path, part))
    if (before !== undefined && before < edit.start) return before
    if (before !== undefined && before >= edit.knownEnd) return before + moved
    whole ??= readYaml(text, file)
    return whole.offsetOf(path, part)
  }
  const placeAt = placesIn(text, file)
  const value: object = Object.assign(Object.create(null), known.value, { [list]: entries.values })
  const document: YamlDocument = {
    value,
    complaints: [],
    hasAnchors: false,
    offsetOf,
    placeOf: (path, part) => placeAt(offsetOf(path, part))
  }
  return { document, known: { ...known, text, value, entries, offsets: new Map<string, number>() } }
}
