// Every file and package that a module needs at run time is known, however far down it is imported.
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

export interface Imports {
  /** Absolute paths of modules. */
  readonly files: ReadonlySet<string>
  /** Names of packages, without what lies below them. */
  readonly packages: ReadonlySet<string>
}

const STATEMENT = /(?:^|\n)\s*(?:import|export)\s+(?!type\b)(?:[^'";]*?\bfrom\s+)?'([^']+)'|\bimport\('([^']+)'\)/g

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

/** Follows static and literal dynamic imports; `import type` needs nothing at run time. */
export const importsOf = (entry: string): Imports => {
  const files = new Set<string>()
  const packages = new Set<string>()
  const visit = (file: string) => {
    if (files.has(file)) return
    files.add(file)
    for (const [, fixed, dynamic] of readFileSync(file, 'utf8').matchAll(STATEMENT)) {
      const specifier = fixed ?? dynamic ?? ''
      if (specifier.startsWith('.')) visit(fileURLToPath(new URL(specifier, pathToFileURL(file))))
      else if (!isBuiltin(specifier)) packages.add(packageOf(specifier))
    }
  }
  visit(entry)
  return { files, packages }
}
