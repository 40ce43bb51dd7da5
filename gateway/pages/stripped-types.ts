// Strips the types of browser modules, and caches the result beside the compiled code: stripping takes a sixth of a start.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { getCompileCacheDir, stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Types become blanks; lines that are blank or only a comment are useless to a browser. */
export const stripTypes = (source: string): string => withoutTypes(source).replace(/^\s*(?:\/\/.*)?\n/gm, '')

const withoutTypes = (source: string): string => {
  const folder = getCompileCacheDir()
  if (folder === undefined) return strip(source)
  // The directory belongs to one version of Node, which does the stripping.
  const file = join(folder, 'browser', sha256(source))
  const kept = readKept(file)
  if (kept !== undefined) return kept
  const stripped = strip(source)
  keep(file, stripped)
  return stripped
}

const strip = (source: string): string => {
  const { emitWarning } = process
  // The function warns that it is experimental; Node itself runs all our files through the same stripping.
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(source)
  } finally {
    process.emitWarning = emitWarning
  }
}

/** Undefined if there is none, or if it differs from what was written. */
const readKept = (file: string): string | undefined => {
  try {
    const [, sum, text = ''] = /^([0-9a-f]{64})\n([\s\S]*)$/.exec(readFileSync(file, 'utf8')) ?? []
    return sum === sha256(text) ? text : undefined
  } catch {
    return undefined
  }
}

/** Written atomically, because others may write or read it now; if nothing can be stored, nothing is. */
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
