// Parses YAML into plain data with a location for every part, or complaints, without YAML's surprises.
import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type Scalar,
  type YAMLMap
} from 'yaml'
import { oncePer } from '../values/bounded-map.ts'
import type { SourceLocation } from '../values/source-location.ts'
import { type Complaint, complain } from './complaint.ts'

export interface YamlDocument {
  /** Objects have no prototype; undefined if the text could not be parsed. */
  readonly value: unknown
  readonly complaints: readonly Complaint[]
  /** Location of a value, or of its key, by its path from the root; the nearest known part if there is none. */
  locationOf(path: readonly (string | number)[], part?: 'key' | 'value'): SourceLocation
}

interface Reading {
  readonly anchors: Map<string, Node>
  /** What each alias stands for: a later anchor may have the same name (YAML 1.2.2 §7.1). */
  readonly targets: Map<Alias, Node>
  readonly open: Set<unknown>
  readonly complaints: Complaint[]
  readonly at: (node: Node | null) => SourceLocation
  /** Number of nodes that aliases may still repeat. */
  budget: number
}

const MAX_DEPTH = 32
const MAX_REPEATED_NODES = 100_000

/** YAML 1.2 core schema without tags, merge keys, cycles, exploding aliases, duplicate keys or further documents. */
export const readYaml = (text: string, file: string): YamlDocument => {
  const lineCounter = new LineCounter()
  const locationAt = (offset: number): SourceLocation => {
    const { line, col } = lineCounter.linePos(offset)
    return { file, line, column: col }
  }
  try {
    const document = parseDocument(text, { prettyErrors: false, uniqueKeys: false, lineCounter })
    // The parser reports unknown tags as warnings; all tags are refused below.
    const warnings = document.warnings.filter(({ code }) => code !== 'TAG_RESOLVE_FAILED')
    // After the first error the parser guesses, so one slip would cause a hundred complaints.
    const errors = document.errors.slice(0, 1)
    const directive = DIRECTIVE.exec(text)
    const faults = [...errors, ...warnings].map(({ pos: [offset], message, code }) => {
      const meant = meantBeside(text, offset) ?? { index: offset, message: sentence(code, message) }
      return complain(locationAt(meant.index), meant.message)
    })
    if (directive !== null) {
      const message = 'directives such as %YAML are not allowed: route files are YAML 1.2'
      faults.unshift(complain(locationAt(directive.index + directive[0].length - 1), message))
    }
    const reading: Reading = {
      anchors: new Map(),
      targets: new Map(),
      open: new Set(),
      complaints: faults,
      at: node => locationAt(node?.range?.[0] ?? 0),
      // So many that the work grows with the text, not with its square.
      budget: Math.max(MAX_REPEATED_NODES, text.length)
    }
    const root = document.contents as Node | null
    const value = document.errors.length > 0 ? undefined : toValue(root, reading, 0, false)
    return {
      value,
      complaints: faults,
      locationOf: (path, part) => reading.at(nodeAt(root, path, part, reading.targets))
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    // The parser is recursive, and thousands of nested brackets exhaust its stack.
    const start = { file, line: 1, column: 1 }
    return { value: undefined, complaints: [complain(start, TOO_DEEP)], locationOf: () => start }
  }
}

/** The first one, before which there are only comments and blank lines (YAML 1.2.2 §6.8), as the parser finds it. */
const DIRECTIVE = /^(?:\uFEFF?[ \t]*(?:#[^\n]*)?\r?\n)*\uFEFF?%/

const TOO_DEEP = 'nested too deeply'

/** In words of route files, without the text, the line and the column that the parser may append. */
const sentence = (code: string, message: string): string => {
  if (message.includes('call stack')) return TOO_DEEP
  const first = message.split('\n')[0]?.replace(/:(?: .*)?$/, '') ?? ''
  const known = SENTENCES.find(([of, text]) => of === code && text.test(first))?.[2]
  return known ?? `not valid YAML: ${first}`
}

const PLACEHOLDER = /\$\{[A-Za-z_][A-Za-z0-9_]*\}/

const notExpanded = (placeholder: string): string =>
  `"${placeholder}" is not expanded: route files have no variables; write the value itself`

/** As other frameworks write parameters of paths. */
const PARAMETER = /(?<=\/)[{[](\w+)[}\]]/

/** A placeholder or parameter on the line with the error: unquoted, in `{…}` or `[…]`, it ends the text before it. */
const meantBeside = (text: string, offset: number): { index: number; message: string } | undefined => {
  const start = text.lastIndexOf('\n', offset - 1) + 1
  const end = text.indexOf('\n', offset)
  const line = text.slice(start, end < 0 ? undefined : end)
  const placeholder = PLACEHOLDER.exec(line)
  if (placeholder !== null) return { index: start + placeholder.index, message: notExpanded(placeholder[0]) }
  const parameter = PARAMETER.exec(line)
  if (parameter === null) return undefined
  const message = `"${parameter[0]}" would be no parameter: write :${parameter[1]}`
  return { index: start + parameter.index, message }
}

const refuse = (node: Node | null, reading: Reading, message: string): null => {
  reading.complaints.push(complain(reading.at(node), message))
  return null
}

const toValue = (node: Node | null, reading: Reading, depth: number, isRepeated: boolean): unknown => {
  if (node === null) return null
  if (isAlias(node)) return followAlias(node, reading, depth)
  if (isRepeated) {
    reading.budget -= 1
    if (reading.budget === 0) return refuse(node, reading, 'aliases repeat too much')
    if (reading.budget < 0) return null
  }
  if (depth > MAX_DEPTH) return refuse(node, reading, TOO_DEEP)
  if (node.tag !== undefined) refuse(node, reading, TAG)
  if (!isRepeated && 'anchor' in node && node.anchor !== undefined) reading.anchors.set(node.anchor, node)
  if (isScalar(node)) return scalarToValue(node, reading)
  reading.open.add(node)
  const value = isMap(node)
    ? mapToValue(node, reading, depth, isRepeated)
    : isSeq(node)
      ? node.items.map(item => toValue(item as Node | null, reading, depth + 1, isRepeated))
      : null
  reading.open.delete(node)
  return value
}

const scalarToValue = (node: Scalar, reading: Reading): unknown => {
  const placeholder = typeof node.value === 'string' ? PLACEHOLDER.exec(node.value)?.[0] : undefined
  return placeholder === undefined ? node.value : refuse(node, reading, notExpanded(placeholder))
}

const followAlias = (alias: Alias, reading: Reading, depth: number): unknown => {
  const target = reading.targets.get(alias) ?? reading.anchors.get(alias.source)
  if (target !== undefined) reading.targets.set(alias, target)
  if (target !== undefined && !reading.open.has(target)) return toValue(target, reading, depth, true)
  return refuse(alias, reading, target === undefined ? ALIAS : `the alias *${alias.source} contains itself`)
}

const mapToValue = (map: YAMLMap, reading: Reading, depth: number, isRepeated: boolean): unknown => {
  const value: Record<string, unknown> = Object.create(null)
  for (const pair of map.items) {
    const key = pair.key as Node | null
    if (!isScalar(key) || typeof key.value !== 'string') {
      refuse(key, reading, 'keys must be plain text')
    } else if (key.value === '<<') {
      refuse(key, reading, 'merge keys (<<) are not merged by YAML 1.2; write the keys out')
    } else if (key.value in value) {
      // Without a space after its colon, the value of a header, which may be a secret, is part of the key.
      refuse(key, reading, `duplicate key "${key.value.replace(/:.+$/s, ':…')}"`)
    } else {
      value[key.value] = toValue(pair.value as Node | null, reading, depth + 1, isRepeated)
    }
  }
  return value
}

const nodeAt = (
  root: Node | null,
  path: readonly (string | number)[],
  part: 'key' | 'value' = 'value',
  targets: ReadonlyMap<Alias, Node>
): Node | null => {
  let node = root
  for (const [index, step] of path.entries()) {
    const parent: Node | null | undefined = isAlias(node) ? targets.get(node) : node
    const wantsKey = part === 'key' && index === path.length - 1
    const next: unknown = isMap(parent)
      ? inMap(parent, step, wantsKey)
      : isSeq(parent)
        ? parent.items[Number(step)]
        : undefined
    if (next === undefined || next === null) return node
    node = next as Node
  }
  return node
}

const inMap = (map: YAMLMap, step: string | number, wantsKey: boolean): Node | null | undefined => {
  const pair = pairsOf(map).get(step)
  const value = pair?.value as Node | null | undefined
  // A key without a value is reported at the key.
  const isAbsent = value === undefined || value === null || value.range?.[0] === value.range?.[1]
  return wantsKey || isAbsent ? (pair?.key as Node | undefined) : value
}

/** Of keys that occur twice, the first counts. */
const pairsOf = oncePer((map: YAMLMap) => {
  const pairs = new Map<unknown, Pair>()
  for (const pair of map.items) if (isScalar(pair.key) && !pairs.has(pair.key.value)) pairs.set(pair.key.value, pair)
  return pairs
})

const INDENTED = 'the indentation of this line matches none of the lines that it could belong to'
const LIST = 'a list that begins with [ must end with ]'
const MAP = 'a map that begins with { must end with }'
const KEY = 'a key needs a colon and a space after it, as in "path: /api/orders"'
// Without what was written: it may be a secret that was left without quotes.
const ALIAS = '* begins an alias in YAML: write text that begins with it in quotes'
const TAG = '! begins a tag, which route files do not have: write text that begins with it in quotes'

/** By the parser's code (https://eemeli.org/yaml/#errors), and for some codes by its text. */
const SENTENCES: readonly (readonly [code: string, text: RegExp, sentence: string])[] = [
  ['MULTIPLE_DOCS', /./, 'a file must contain only one document'],
  ['TAB_AS_INDENT', /./, 'a tab at the start of a line: YAML is indented with spaces only'],
  ['BAD_ALIAS', /empty/, ALIAS],
  ['TAG_RESOLVE_FAILED', /./, TAG],
  ['BAD_INDENT', /end with a \]/, LIST],
  ['BAD_INDENT', /end with a \}/, MAP],
  ['BAD_INDENT', /./, INDENTED],
  ['MISSING_CHAR', /end with a \]/, LIST],
  ['MISSING_CHAR', /end with a \}/, MAP],
  ['MISSING_CHAR', /without - indicator/, INDENTED],
  ['MISSING_CHAR', /quote/, 'a quote that was opened before this place is never closed'],
  ['MISSING_CHAR', /map values/, KEY],
  ['MULTILINE_IMPLICIT_KEY', /./, KEY],
  ['BLOCK_AS_IMPLICIT_KEY', /sequence/, INDENTED],
  ['BLOCK_AS_IMPLICIT_KEY', /./, 'a second colon followed by a space: write the value in quotes'],
  ['BAD_SCALAR_START', /./, 'a value that begins with this character must be in quotes'],
  ['BAD_DQ_ESCAPE', /./, 'within double quotes, \\ begins an escape: use single quotes'],
  ['UNEXPECTED_TOKEN', /^Block scalar/, 'text that begins with | or > on the same line must be in quotes'],
  ['UNEXPECTED_TOKEN', /node end/, 'more text after a value that has ended: write all of it in one pair of quotes'],
  ['UNEXPECTED_TOKEN', /seq-ind/, 'an entry of a list must begin on a line of its own'],
  ['UNEXPECTED_TOKEN', /(?:map|seq)-end/, 'there is no open bracket that this one could close']
]
