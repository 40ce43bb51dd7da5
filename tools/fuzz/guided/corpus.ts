// Keeps the inputs that once reached something new in `tools/fuzz/corpus/guided`, one JSON file for each target.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = join(import.meta.dirname, '../corpus/guided')
/** The shortest are kept: they say the most, and the gate runs all of them. */
const MAX_ENTRIES = 200
const MAX_LENGTH = 1000

const fileOf = (name: string): string => join(FOLDER, `${name}.json`)

/** Latin-1 texts. */
export const readGuided = (name: string): string[] => {
  if (!existsSync(fileOf(name))) return []
  const entries: unknown = JSON.parse(readFileSync(fileOf(name), 'utf8'))
  if (!Array.isArray(entries) || !entries.every(entry => typeof entry === 'string'))
    throw new Error(`${name}: no corpus`)
  return entries
}

export const writeGuided = (name: string, inputs: Iterable<string>): number => {
  const entries = [...new Set(inputs)]
    .filter(({ length }) => length <= MAX_LENGTH)
    .sort((a, b) => a.length - b.length || (a < b ? -1 : 1))
    .slice(0, MAX_ENTRIES)
  // One a line, escaped beyond ASCII: changes can be read.
  const lines = entries.map(entry => JSON.stringify(entry).replace(/[\x7f-\uffff]/g, escaped))
  writeFileSync(fileOf(name), `[\n${lines.join(',\n')}\n]\n`)
  return entries.length
}

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
