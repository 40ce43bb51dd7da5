// Finds the routes of index files, which backends serve when the directory itself is requested.
import { decode } from './canonical-path.ts'
import { foldLetters, laxReadings } from './lax-readings.ts'
import type { Route, RouteMatch } from './route.ts'
import { findRoute, type RouteTrie, shapeOf } from './route-trie.ts'

interface IndexFiles {
  readonly folded: RouteTrie
  readonly depth: number
  /** The names of index files that end routes, folded; empty in most tables. */
  readonly indexNames: ReadonlySet<string>
}

// Apache, nginx, IIS and Tomcat use such names by default.
const INDEX_FILE = /\/((?:index|default)\.[^/]+)(?:\/\*?)?$/i

/** The name of the index file that a route ends in, folded. */
export const indexNameOf = ({ path }: Pick<Route, 'path'>): string | undefined => {
  const [, name] = INDEX_FILE.exec(path) ?? []
  return name === undefined ? undefined : foldLetters(decode(name) ?? name)
}

/** If a backend may serve an index file for the path, the route of that file must admit the request as well. */
export const withIndexFiles = (
  match: RouteMatch,
  method: string,
  { folded, depth, indexNames }: IndexFiles
): RouteMatch => {
  if (match.route === undefined || isSpelledOut(match.route)) return match
  const others = new Set(match.alsoReadAs)
  for (const reading of laxReadings(match.path, depth)) {
    const segments = reading.map(foldLetters)
    for (const name of indexNames) {
      const found = findRoute(folded, method, [...segments, name])
      if (found !== undefined && found !== 'reserved' && isIndexOf(found, name, segments.length)) others.add(found)
    }
  }
  others.delete(match.route)
  return others.size === 0 ? match : { ...match, alsoReadAs: [...others] }
}

/** The route is that of the directory, or takes extensions as parts of names. */
const isSpelledOut = ({ path, coversBelow, allowInPath }: Route): boolean =>
  (!coversBelow && !/\/:[^/]*\/?$/.test(path)) || allowInPath.includes('extension')

const isIndexOf = (route: Route, name: string, depth: number): boolean =>
  indexNameOf(route) === name && shapeOf(route.path).length - (route.coversBelow ? 1 : 0) === depth + 1
