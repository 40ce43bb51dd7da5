// Compares `diff` and `explain` with brute force: random pairs of route tables, random requests, every kind of person.
import { compareTables } from '../../gateway/cli/compare-tables.ts'
import { ASKERS, HALF_ASSIGNED } from '../../gateway/explain/askers.ts'
import { explain } from '../../gateway/explain/explain.ts'
import { canonicalPath } from '../../gateway/routes/canonical-path.ts'
import { decide } from '../../gateway/routes/decide.ts'
import { atOnce } from '../../gateway/routes/in-parts.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { ROUTE_DEFAULTS, type RouteTable, type WrittenRoute } from '../../gateway/routes/route.ts'
import { buildRouteTable } from '../../gateway/routes/route-table.ts'
import { takesMethod } from '../../gateway/routes/route-trie.ts'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import { compareShapes, pathMatches, segmentsOf } from '../../test/support/route-order.ts'
import { createRandom, type Random } from './mutate.ts'

const ASKING = [...ASKERS, ...HALF_ASSIGNED]
const OPTIONS = { cloudUnassignedMayPass: false }
const UPSTREAM = { name: 'up' } as Upstream
const SEGMENTS = ['a', 'b', 'admin', 'Admin', 'a.json', 'index.php', 'index.html', 'x.php', ':id', ':other']
const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'TRACE']
const ASKED_SEGMENTS = [
  'a',
  'b',
  'admin',
  'ADMIN',
  'Admin',
  'A',
  'c',
  'a.json',
  'admin.json',
  'index.php',
  'index.html',
  'x.php',
  'a.php',
  'a%20',
  'a;b',
  'b.',
  '%61',
  'a%2Fb',
  '',
  'auth',
  'health'
]
const REQUESTS = 30

const routeOf = (random: Random): WrittenRoute => {
  const segments = Array.from({ length: random.below(4) }, () => random.pick(SEGMENTS))
  const isRest = random.below(2) === 0
  const path = `/${[...segments, ...(isRest ? ['*'] : [])].join('/')}`
  const methods = random.below(3) === 0 ? new Set(METHODS.filter(() => random.below(3) === 0)) : undefined
  const named = methods === undefined || methods.size === 0 ? undefined : methods
  const kind = random.below(6)
  return {
    ...ROUTE_DEFAULTS,
    id: `${named === undefined ? '' : `${[...named].join(',')} `}${path}`,
    path,
    methods: named,
    upstream: UPSTREAM,
    public: kind === 0,
    roles: kind < 2 ? undefined : kind === 2 ? ['Admin'] : kind === 3 ? ['Agente', 'Admin'] : undefined,
    requireAssigned: kind === 4,
    allowInPath: random.below(8) === 0 ? ['extension'] : random.below(8) === 0 ? ['semicolon', 'encodedSlash'] : []
  }
}

/** Two routes that only the order of writing could tell apart are an error in files. */
const withoutTies = (routes: readonly WrittenRoute[]): WrittenRoute[] => {
  const shapes = new Set<string>()
  return routes.filter(({ path, methods }) => {
    const shape = path.replace(/:[^/]+/g, ':').toLowerCase()
    const keys = [...(methods ?? ['*'])].map(method => `${method} ${shape}`)
    if (keys.some(key => shapes.has(key))) return false
    for (const key of keys) shapes.add(key)
    return true
  })
}

const tableOf = (routes: readonly WrittenRoute[]): RouteTable =>
  atOnce(buildRouteTable({ routes: [...ownRoutes(), ...withoutTies(routes)], upstreams: new Map(), checksum: '' }))

const pairOf = (random: Random): [RouteTable, RouteTable] => {
  const before = Array.from({ length: 1 + random.below(6) }, () => routeOf(random))
  const after = before.flatMap(route => {
    const change = random.below(5)
    if (change === 0) return []
    if (change > 1) return [route]
    const other = routeOf(random)
    return [{ ...route, public: other.public, roles: other.roles, requireAssigned: other.requireAssigned }]
  })
  if (random.below(2) === 0) after.push(routeOf(random))
  return [tableOf(before), tableOf(after)]
}

const requestOf = (random: Random) => ({
  method: random.pick([...METHODS, 'PUT']),
  path: `/${Array.from({ length: random.below(5) }, () => random.pick(ASKED_SEGMENTS)).join('/')}`
})

const describe = (before: RouteTable, after: RouteTable) => {
  const written = ({ routes }: RouteTable) =>
    routes
      .filter(({ upstream }) => upstream !== undefined)
      .map(({ id, public: open, roles, requireAssigned, allowInPath }) =>
        [id, open && 'public', roles, requireAssigned && 'assigned', allowInPath].filter(Boolean).join(' ')
      )
      .join(' | ')
  return `${written(before)}  →  ${written(after)}`
}

type Request = ReturnType<typeof requestOf>

/** The routes that decide a request: its own, and those as which a lax backend could read it; undefined: none. */
const concernedBy = (table: RouteTable, { method, path }: Request): (string | undefined)[] => {
  const match = table.match(method, path)
  if (match.route !== undefined) return [match.route, ...(match.alsoReadAs ?? [])].map(({ id }) => id)
  const canonical = canonicalPath(path, ['encodedSlash', 'semicolon', 'doubleSlash']).path ?? path
  const candidates = table.candidates(method, canonical).map(one => (one === 'reserved' ? one : one.id))
  return [table.misread(method, canonical)?.route?.id, ...candidates, undefined]
}

const diffFaults = (before: RouteTable, after: RouteTable, requests: readonly Request[]): string[] => {
  const { opened, closed } = compareTables(before, after, OPTIONS)
  const passes = (table: RouteTable, { method, path }: Request) =>
    ASKING.filter(asker => decide(table.match(method, path), asker, OPTIONS).decision === 'allow').map(
      ({ name }) => name
    )
  const missed = requests.flatMap(request => {
    const [was, now] = [passes(before, request), passes(after, request)]
    const concerned = new Set([...concernedBy(before, request), ...concernedBy(after, request)])
    const isReported = (reports: typeof opened, name: string) =>
      reports.some(
        report => report.who.includes(name) && [report.was.route, report.now.route].some(id => concerned.has(id))
      )
    return [
      ...now
        .filter(name => !was.includes(name) && !isReported(opened, name))
        .map(name => `not reported as open: ${name}`),
      ...was
        .filter(name => !now.includes(name) && !isReported(closed, name))
        .map(name => `not reported as closed: ${name}`)
    ].map(fault => `${request.method} ${request.path} ${fault}`)
  })
  const wrong = [...opened, ...closed].flatMap(({ change, who, example, text }) => {
    const [was, now] = [passes(before, example), passes(after, example)]
    const isTrue = who.every(
      name => was.includes(name) !== (change === 'opened') && now.includes(name) === (change === 'opened')
    )
    return isTrue ? [] : [`${text}: the example ${example.method} ${example.path} shows something else`]
  })
  return [...missed, ...wrong]
}

const explainFaults = (table: RouteTable, { method, path }: Request): string[] => {
  const match = table.match(method, path)
  return ASKING.flatMap(asker => {
    const { decision, candidates } = explain(table, { method, target: path, asker }, OPTIONS)
    const live = decide(match, asker, OPTIONS)
    const faults =
      decision.decision === live.decision ? [] : [`explained ${decision.decision}, decided ${live.decision}`]
    const chosen = candidates.filter(candidate => candidate.chosen).map(({ route }) => route.id)
    if (chosen.join() !== (match.route === undefined ? '' : match.route.id)) faults.push(`explained ${chosen.join()}`)
    if (match.route === undefined) return faults
    const segments = segmentsOf(match.path)
    const [best] = table.routes
      .filter(route => pathMatches(route.path, segments) && takesMethod(route, method))
      .sort((a, b) => compareShapes(b, a, method))
    if (best !== match.route) faults.push(`${best?.id} has precedence`)
    return faults.map(fault => `${method} ${path}: ${fault}`)
  })
}

interface DecisionFuzz {
  readonly seed: number
  readonly goesOn: (done: number) => boolean
  readonly onFault: (fault: string, tables: string) => void
}

/** Returns the number of pairs compared. */
export const fuzzDecisions = ({ seed, goesOn, onFault }: DecisionFuzz): number => {
  const random = createRandom(seed)
  let done = 0
  for (; goesOn(done); done++) {
    const [before, after] = pairOf(random)
    const requests = Array.from({ length: REQUESTS }, () => requestOf(random))
    const faults = [
      ...diffFaults(before, after, requests),
      ...requests.flatMap(request => explainFaults(before, request))
    ]
    for (const fault of faults) onFault(fault, describe(before, after))
  }
  return done
}
