// Lists what became more permissive and what became stricter between two route tables, most important first.
import { askersWith, halfAssignedWith, type NamedAsker } from '../explain/askers.ts'
import { compareShapes } from '../explain/specificity.ts'
import { type DecideOptions, type Decision, decide } from '../routes/decide.ts'
import type { Place, Route, RouteMatch, RouteTable } from '../routes/route.ts'
import { compareGrants } from './compare-grants.ts'
import { compareNamespaces, type NamespaceAccess } from './compare-namespaces.ts'
import { compareOptions, type Note } from './compare-options.ts'
import { compareUpstreams } from './compare-upstreams.ts'
import { methodWords, sentence } from './difference-words.ts'
import { type MethodClass, representativeRequests } from './representative-requests.ts'

export interface Difference {
  readonly change: 'opened' | 'closed'
  /** The id of the more specific route; `namespace …` for a Socket.IO namespace. */
  readonly path: string
  /** Empty: all methods; `*`: all methods that no route names. */
  readonly methods: readonly string[]
  /** Who passes now and did not before, or the reverse. */
  readonly who: readonly string[]
  readonly text: string
  readonly example: { readonly method: string; readonly path: string }
  readonly was: TableSide
  readonly now: TableSide
  /** Severity: higher values are listed first. */
  readonly weight: number
}

export interface TableSide {
  /** undefined: no route. */
  readonly route: string | undefined
  readonly place: Place | undefined
  /** Everyone who passes. */
  readonly allowed: readonly string[]
}

export interface Comparison {
  readonly opened: readonly Difference[]
  readonly closed: readonly Difference[]
  readonly notes: readonly Note[]
  /** False if there were too many combinations of routes to check all of them. */
  readonly isComplete: boolean
}

interface CompareOptions extends DecideOptions {
  /** Every kind of person that either table distinguishes. */
  readonly askers: readonly NamedAsker[]
}

interface Group {
  readonly was: RouteMatch
  readonly now: RouteMatch
  readonly methods: Map<string, MethodClass>
  readonly example: { readonly method: string; readonly path: string }
}

/** Asks both tables every request that could distinguish them, as every kind of person. */
export const compareTables = (before: RouteTable, after: RouteTable, decideOptions: DecideOptions): Comparison => {
  const profiles = [...new Set([...before.profiles, ...after.profiles])]
  const options = { ...decideOptions, askers: [...askersWith(profiles), ...halfAssignedWith(profiles)] }
  const routes = [...before.routes, ...after.routes].filter(isWritten)
  const { paths, methods, isComplete } = representativeRequests(routes)
  const groups = new Map<string, Group>()
  for (const path of paths) {
    for (const method of methods) {
      const [was, now] = [before.match(method.method, path), after.match(method.method, path)]
      if (!isWritten(was.route) && !isWritten(now.route)) continue
      const key = `${keyOf(was)} → ${keyOf(now)}`
      const group = groups.get(key) ?? { was, now, methods: new Map(), example: { method: method.method, path } }
      group.methods.set(method.method, method)
      groups.set(key, group)
    }
  }
  const found = [...groups.values()]
  const differences = found.flatMap(group => differencesOf(group, methods, options)).sort(louder)
  return {
    opened: differences.filter(({ change }) => change === 'opened'),
    closed: differences.filter(({ change }) => change === 'closed'),
    notes: unique([
      ...compareGrants(before.grants, after.grants),
      ...compareUpstreams(before, after),
      ...found.flatMap(notesOf)
    ]),
    isComplete
  }
}

/** From the route files, not the gateway's own. */
const isWritten = (route: Route | undefined): route is Route =>
  route?.upstream !== undefined || route?.external === true

const keyOf = (match: RouteMatch): string => match.route?.id ?? match.refusal ?? ''

const louder = (a: Difference, b: Difference): number =>
  b.weight - a.weight || (a.text < b.text ? -1 : a.text > b.text ? 1 : 0)

const notesOf = ({ was, now }: Group): Note[] =>
  was.route === undefined || now.route === undefined ? [] : compareOptions(was.route, now.route)

const unique = (notes: readonly Note[]): Note[] =>
  [...new Map(notes.map(note => [note.text, note])).values()].sort((a, b) => Number(b.looser) - Number(a.looser))

const differencesOf = (group: Group, all: readonly MethodClass[], options: CompareOptions): Difference[] => {
  const { was, now, example } = group
  const path = moreSpecific(was.route, now.route, example.method)
  if (was.route?.socketio !== undefined || now.route?.socketio !== undefined) {
    return compareNamespaces(was.route, now.route, options.cloudUnassignedMayPass, options.askers).flatMap(one =>
      asDifferences({ ...one, name: `${path} namespace ${one.name}`, methods: [] }, group)
    )
  }
  const passes = (match: RouteMatch) => options.askers.filter(asker => isAllowed(decide(match, asker, options)))
  const before = passes(was).map(({ name }) => name)
  const after = passes(now).map(({ name }) => name)
  return asDifferences({ name: path, before, after, methods: methodWords(group.methods, all) }, group)
}

const isAllowed = ({ decision }: Decision): boolean => decision === 'allow'

interface Access extends NamespaceAccess {
  readonly methods: readonly string[]
}

const asDifferences = ({ name, before, after, methods }: Access, { was, now, example }: Group): Difference[] => {
  const side = (match: RouteMatch, allowed: readonly string[]): TableSide => ({
    route: match.route?.id,
    place: match.route?.place,
    allowed
  })
  const difference = (change: Difference['change'], who: readonly string[]): Difference[] => {
    if (who.length === 0) return []
    const text = sentence({ change, path: name, methods, who, before, after })
    const common = { change, path: name, methods, who, text, example }
    return [{ ...common, was: side(was, before), now: side(now, after), weight: weigh(who, was.route !== undefined) }]
  }
  const opened = after.filter(one => !before.includes(one))
  const closed = before.filter(one => !after.includes(one))
  return [...difference('opened', opened), ...difference('closed', closed)]
}

const WEIGHTS: Readonly<Record<string, number>> = {
  anonymous: 1000,
  'cloud-unassigned': 200,
  unassigned: 200,
  Agente: 100,
  Supervisor: 50,
  Admin: 10
}

// Access that was protected by a rule and now is less so ranks above access that is entirely new.
const weigh = (who: readonly string[], wasRoute: boolean): number =>
  who.reduce((sum, name) => sum + (WEIGHTS[name] ?? 1), 0) * (wasRoute ? 3 : 1)

const moreSpecific = (was: Route | undefined, now: Route | undefined, method: string): string => {
  if (was === undefined || now === undefined) return (was ?? now)?.path ?? ''
  return compareShapes(was, now, method) >= 0 ? was.path : now.path
}
