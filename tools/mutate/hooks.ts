// Loads a module with its mutant in place of the file, and anew whatever depends on it.
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ROOT, scriptOf } from './graph.ts'

export interface Substitution {
  /** From the root. */
  readonly module: string
  readonly source: string
  /** What must not be what was loaded before: the module, the test, and what lies between. */
  readonly fresh: ReadonlySet<string>
  /** Different for each mutant. */
  readonly generation: number
  /** Whether the process has this one mutant alone, and the tests have tap itself. */
  readonly isAlone?: boolean
}

const ROOT_URL = `${pathToFileURL(ROOT).href}/`
const OURS = /^(?:gateway|test|migrations)\/.*\.ts$/

/** While something is substituted, tests get `globalThis.portariaTap` and `portariaFastCheck` for these libraries. */
export const installHooks = (current: () => Substitution | undefined) => {
  const scripts = new Map<string, string>()
  const scriptFor = (path: string): string => {
    const known = scripts.get(path) ?? scriptOf(path)
    scripts.set(path, known)
    return known
  }
  registerHooks({
    resolve(specifier, context, next) {
      const now = current()
      if (now === undefined || now.isAlone === true) return next(specifier, context)
      if (specifier === 'tap' && context.parentURL?.startsWith(`${ROOT_URL}test/`))
        return { url: `portaria-tap:${now.generation}`, format: 'module', shortCircuit: true }
      if (specifier === 'fast-check' && context.parentURL?.startsWith(`${ROOT_URL}test/`))
        return { url: 'portaria-fast-check:', format: 'module', shortCircuit: true }
      const resolved = next(specifier, context)
      const path = pathOf(resolved.url)
      if (path === undefined || !now.fresh.has(path)) return resolved
      return { ...resolved, url: `${resolved.url.split('?')[0]}?mutant=${now.generation}` }
    },
    load(url, context, next) {
      if (url.startsWith('portaria-tap:'))
        return { format: 'module', source: 'export default globalThis.portariaTap', shortCircuit: true }
      if (url === 'portaria-fast-check:')
        return { format: 'module', source: 'export default globalThis.portariaFastCheck', shortCircuit: true }
      const path = pathOf(url)
      if (path === undefined) return next(url, context)
      const now = current()
      // In a process of its own, Node loads the others from its cache of compiled code.
      if (now?.isAlone === true && now.module !== path) return next(url, context)
      const source = now?.module === path ? now.source : scriptFor(path)
      return { format: 'module', source, shortCircuit: true }
    }
  })
}

const pathOf = (url: string): string | undefined => {
  if (!url.startsWith(ROOT_URL)) return undefined
  const path = url.slice(ROOT_URL.length).split('?')[0] ?? ''
  return OURS.test(path) ? path : undefined
}

/** The address under which a test is imported. */
export const addressOf = (test: string, { generation }: Substitution): string =>
  `${pathToFileURL(join(ROOT, test)).href}?mutant=${generation}`
