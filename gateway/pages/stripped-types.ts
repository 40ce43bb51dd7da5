// Strips the types of browser modules, and keeps the result beside the compiled code: stripping is a sixth of a start.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { getCompileCacheDir, stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Types become blanks; lines that are only a comment or blank are of no use to a browser. */
export const stripTypes = (source: string): string => withoutTypes(source).replace(/^\s*(?:\/\/.*)?\n/gm, '')

const withoutTypes = (source: string): string => {
  const folder = getCompileCacheDir()
  if (folder === undefined) return strip(source)
  // The folder is of one version of Node, which is what strips.
  const file = join(folder, 'browser', sha256(source))
  const kept = readKept(file)
  if (kept !== undefined) return kept
  const stripped = strip(source)
  keep(file, stripped)
  return stripped
}

const strip = (source: string): string => {
  const { emitWarning } = process
  // The function warns that it is experimental; Node itself runs every file of ours through the same stripping.
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(source)
  } finally {
    process.emitWarning = emitWarning
  }
}

/** Undefined when there is none, or when it is not what was written. */
const readKept = (file: string): string | undefined => {
  try {
    const [, sum, text = ''] = /^([0-9a-f]{64})\n([\s\S]*)$/.exec(readFileSync(file, 'utf8')) ?? []
    return sum === sha256(text) ? text : undefined
  } catch {
    return undefined
  }
}

/** Whole or not at all, as others may write or read it now; where nothing can be kept, nothing is. */
const keep = (file: string, text: string): void => {
  const unfinished = `${file}.${process.pid}`
  try {
    mkdirSync(join(file, '..'), { recursive: true })
    writeFileSync(unfinished, `${sha256(text)}\n${text}`)
    renameSync(unfinished, file)
  } catch {
    // A read-only image: the next start strips again.
  }
}
