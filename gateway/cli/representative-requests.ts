// Lists requests that together show every difference between two route tables in paths and methods.
import { foldLetters } from '../routes/lax-readings.ts'
import type { Route } from '../routes/route.ts'
import { shapeOf } from '../routes/route-trie.ts'

interface RepresentativeRequests {
  readonly paths: readonly string[]
  readonly methods: readonly MethodClass[]
  /** False if the routes have more combinations than are checked; each single route always is. */
  readonly isComplete: boolean
}

/** A method that some route names, or one that represents all others. */
export interface MethodClass {
  readonly method: string
  readonly standsForOthers: boolean
}

const MAX_PATHS = 100_000

/**
 * The route of a canonical path depends only on its length and on which of its segments are static segments of some
 * route, so one path per class is enough. Overlaps (`/a/:x` with `/:y/b`) form classes too.
 */
export const representativeRequests = (routes: readonly Route[]): RepresentativeRequests => {
  const root = createNode()
  for (const { path } of routes) insert(root, shapeOf(path))
  const fresh = freshSegment(routes)
  const paths = new Set(routes.flatMap(({ path }) => instances(path, fresh)))
  const isComplete = enumerate(root, fresh, paths)
  return { paths: [...paths], methods: methodClasses(routes), isComplete }
}

interface Node {
  readonly statics: Map<string, Node>
  param: Node | undefined
}

const createNode = (): Node => ({ statics: new Map(), param: undefined })

const insert = (root: Node, shape: readonly string[]): void => {
  let node = root
  for (const segment of shape) {
    if (segment === '*') return
    if (segment.startsWith(':')) {
      node.param ??= createNode()
      node = node.param
    } else {
      const next: Node = node.statics.get(segment) ?? createNode()
      node.statics.set(segment, next)
      node = next
    }
  }
}

// A segment that no route contains, in any case.
const freshSegment = (routes: readonly Route[]): string => {
  const known = new Set(routes.flatMap(({ path }) => shapeOf(path).map(foldLetters)))
  let fresh = 'x'
  while (known.has(fresh)) fresh += 'x'
  return fresh
}

const instances = (path: string, fresh: string): string[] => {
  const shape = shapeOf(path)
  const named = shape.filter(segment => segment !== '*').map(segment => (segment.startsWith(':') ? fresh : segment))
  const base = `/${named.join('/')}`
  return shape.at(-1) === '*' ? [base, `${base === '/' ? '' : base}/${fresh}`] : [base]
}

/** Breadth first, so that the paths omitted beyond the limit are the deepest. */
const enumerate = (root: Node, fresh: string, paths: Set<string>): boolean => {
  let level: { readonly prefix: string; readonly nodes: readonly Node[] }[] = [{ prefix: '', nodes: [root] }]
  while (level.length > 0) {
    const next: typeof level = []
    for (const { prefix, nodes } of level) {
      paths.add(prefix === '' ? '/' : prefix)
      if (paths.size > MAX_PATHS) return false
      const params = nodes.flatMap(({ param }) => (param === undefined ? [] : [param]))
      for (const name of new Set(nodes.flatMap(({ statics }) => [...statics.keys()]))) {
        const named = nodes.flatMap(({ statics }) => statics.get(name) ?? [])
        next.push({ prefix: `${prefix}/${name}`, nodes: [...named, ...params] })
      }
      if (params.length > 0) next.push({ prefix: `${prefix}/${fresh}`, nodes: params })
      else paths.add(`${prefix}/${fresh}`)
    }
    level = next
  }
  return true
}

const COMMON = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD', 'PROPFIND']

const methodClasses = (routes: readonly Route[]): MethodClass[] => {
  const named = new Set(routes.flatMap(({ methods }) => [...(methods ?? [])]))
  if (named.has('GET')) named.add('HEAD')
  const other = COMMON.find(method => !named.has(method)) ?? 'X-OTHER'
  return [
    ...[...named].sort().map(method => ({ method, standsForOthers: false })),
    { method: other, standsForOthers: true }
  ]
}
