// Knows which modules of the gateway and its tests import which others, and the JavaScript that each comes to.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { parse } from 'acorn'
import { simple } from 'acorn-walk'

export const ROOT = resolve(import.meta.dirname, '../..')

/** Blanks stand where types stood: offsets, lines and columns are those of the file. */
export const scriptOf = (file: string): string => stripTypeScriptTypes(readFileSync(join(ROOT, file), 'utf8'))

export interface Graph {
  /** All test files, by their paths from the root. */
  readonly tests: readonly string[]
  /** What the module itself names. */
  imports(file: string): readonly string[]
  /** The module itself and all that it needs, however far down. */
  needs(file: string): ReadonlySet<string>
  /** Changes with the content of the module and of all that it needs. */
  fingerprint(file: string): string
}

const filesIn = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts') && !file.endsWith('.d.ts') && !file.includes('browser/'))
    .map(file => join(folder, file))

const importsIn = (file: string): string[] => {
  const found: string[] = []
  const take = ({ source }: { source?: unknown }) => {
    const specifier = (source as { value?: unknown } | null | undefined)?.value
    if (typeof specifier !== 'string' || !specifier.startsWith('.')) return
    const target = relative(ROOT, resolve(ROOT, dirname(file), specifier))
    if (target.endsWith('.ts') && existsSync(join(ROOT, target))) found.push(target)
  }
  simple(parse(scriptOf(file), { ecmaVersion: 'latest', sourceType: 'module' }), {
    ImportDeclaration: take,
    ExportNamedDeclaration: take,
    ExportAllDeclaration: take,
    ImportExpression: take
  })
  return found
}

export const readGraph = (): Graph => {
  const tests = filesIn('test').filter(file => file.endsWith('.test.ts'))
  const direct = new Map<string, readonly string[]>()
  const hashes = new Map<string, string>()
  const needed = new Map<string, ReadonlySet<string>>()
  const fingerprints = new Map<string, string>()
  const importsOf = (file: string) => {
    const known = direct.get(file) ?? importsIn(file)
    direct.set(file, known)
    return known
  }
  const needs = (file: string): ReadonlySet<string> => {
    const known = needed.get(file)
    if (known !== undefined) return known
    const seen = new Set([file])
    for (const each of seen) for (const next of importsOf(each)) seen.add(next)
    needed.set(file, seen)
    return seen
  }
  const hashOf = (file: string) => {
    const known =
      hashes.get(file) ??
      createHash('sha256')
        .update(readFileSync(join(ROOT, file)))
        .digest('base64url')
    hashes.set(file, known)
    return known
  }
  const fingerprint = (file: string) => {
    const known =
      fingerprints.get(file) ??
      createHash('sha256')
        .update([...needs(file)].sort().map(hashOf).join())
        .digest('base64url')
    fingerprints.set(file, known)
    return known
  }
  return { tests, imports: importsOf, needs, fingerprint }
}
