// Lists what became more permissive and what became stricter between two route tables, most important first.
import { askersWith, halfAssignedWith } from '../explain/askers.ts'
import { matchTarget } from '../route-files/test-lines.ts'
import { type DecideOptions, decide } from '../routes/decide.ts'
import { isFromFiles, type Route, type RouteMatch, type RouteTable } from '../routes/route.ts'
import { asWritten, candidatesFor, createTrie, keepEarlier, shapeOf } from '../routes/route-trie.ts'
import { atOnce } from '../values/in-parts.ts'
import { type CompareOptions, compareNamespaces } from './compare-namespaces.ts'
import { compareGrants, compareOptions, compareUpstreams, type Note } from './compare-options.ts'
import { methodWords, sentence } from './difference-words.ts'
import { type MethodClass, representativeAddresses, representativeRequests } from './representative-requests.ts'

export type Difference = ReturnType<typeof asDifferences>[number]

interface Example {
  readonly method: string
  readonly path: string
  /** An entry of some route's `host`; '': a host that no route names. */
  readonly host: string
}

export type Comparison = Readonly<ReturnType<typeof compareTables>>

/** Requests that match the same two routes and are decided alike. */
interface Group extends Change {
  readonly key: string
  readonly was: RouteMatch
  readonly now: RouteMatch
  readonly methods: Map<string, MethodClass>
  readonly example: Example
  /** The path is one that lax backends read in several ways. */
  readonly isSpelledOddly: boolean
}

/** Asks both tables every request that could distinguish them, as every kind of person. */
export const compareTables = (before: RouteTable, after: RouteTable, decideOptions: DecideOptions) => {
  const profiles = [...new Set([...before.profiles, ...after.profiles])]
  const options = { ...decideOptions, askers: [...askersWith(profiles), ...halfAssignedWith(profiles)] }
  const byHost = ['', ...new Set([...before.hosts, ...after.hosts])].map(host =>
    compareHost(before, after, host, options)
  )
  const differences = byHost.flatMap(one => one.differences).sort(louder)
  return {
    opened: differences.filter(({ change }) => change === 'opened'),
    closed: differences.filter(({ change }) => change === 'closed'),
    notes: unique([
      ...compareGrants(before.grants, after.grants),
      ...compareUpstreams(before, after),
      ...byHost.flatMap(one => one.notes)
    ]).sort((a, b) => Number(b.looser) - Number(a.looser)),
    /** False if there were too many combinations of routes to check all of them. */
    isComplete: byHost.every(one => one.isComplete)
  }
}

/** What differs for requests to one host; an entry of `host` stands for its hosts. */
const compareHost = (before: RouteTable, after: RouteTable, host: string, options: CompareOptions) => {
  const routes = [before, after].flatMap(table => table.routesAt(host).filter(isFromFiles))
  const requests = { ...representativeRequests(routes), host }
  const byAddress = representativeAddresses(routes).map(address => {
    const here = { ...options, askers: options.askers.map(asker => ({ ...asker, address })) }
    const groups = groupsOf(before, after, requests, here)
    return {
      address,
      groups,
      differences: unique(groups.flatMap(group => differencesOf(group, requests.methods, here)))
    }
  })
  return {
    differences: sayAddresses(byAddress),
    notes: byAddress.flatMap(({ groups }) => groups.flatMap(notesOf)),
    isComplete: requests.isComplete
  }
}

/** Requests of clients with one address. */
const groupsOf = (
  before: RouteTable,
  after: RouteTable,
  { paths, methods, host }: ReturnType<typeof representativeRequests> & { readonly host: string },
  options: CompareOptions
): Group[] => {
  const groups = new Map<string, Group>()
  /** By what both tables find, because most requests are alike. */
  const alike = new Map<string, Group>()
  /** By method and plain path. */
  const plainly = new Map<string, Group>()
  for (const { path, of } of paths) {
    for (const method of methods) {
      const target = { host, target: path }
      const [was, now] = [matchTarget(before, method.method, target), matchTarget(after, method.method, target)]
      if (isOwn(was) && isOwn(now)) continue
      const plain = of === undefined ? undefined : plainly.get(`${method.method} ${of}`)
      const found = [keyOf(was), keyOf(now), plain?.key].join(' → ')
      let group = alike.get(found)
      if (group === undefined) {
        const change = changeOf(passers(was, options), passers(now, options), plain)
        const key = [was.route?.id, now.route?.id, ...Object.values(change)].join(' → ')
        const example = { method: method.method, path, host }
        const isSpelledOddly = of !== undefined
        group = groups.get(key) ?? { ...change, key, was, now, methods: new Map(), example, isSpelledOddly }
        groups.set(key, group)
        alike.set(found, group)
      }
      group.methods.set(method.method, method)
      if (of === undefined) plainly.set(`${method.method} ${path}`, group)
    }
  }
  return [...groups.values()]
}

/** What differs for clients of all addresses is said once; the rest, for each kind of address. */
const sayAddresses = (
  all: readonly { readonly address: string | undefined; readonly differences: readonly Difference[] }[]
): Difference[] => {
  const count = (text: string) => all.filter(({ differences }) => differences.some(one => one.text === text)).length
  const said = all.flatMap(({ address, differences }) =>
    differences.map(one => {
      if (count(one.text) === all.length) return one
      const path = `${one.path} from ${address ?? 'any other address'}`
      return { ...one, path, text: sentence({ ...one, path, before: one.was.allowed, after: one.now.allowed }) }
    })
  )
  return unique(said)
}

/** Names of those who pass, and of those for whom that has changed. */
interface Change {
  readonly before: readonly string[]
  readonly after: readonly string[]
  readonly opened: readonly string[]
  readonly closed: readonly string[]
}

/** @param plain what has changed for the plain spelling, which is not said twice */
const changeOf = (before: readonly string[], after: readonly string[], plain?: Change): Change => ({
  before,
  after,
  opened: after.filter(one => !before.includes(one) && plain?.opened.includes(one) !== true),
  closed: before.filter(one => !after.includes(one) && plain?.closed.includes(one) !== true)
})

/** Names of those who pass. Requests to a Socket.IO route only carry packets: its namespaces say who may send which. */
const passers = (match: RouteMatch, options: CompareOptions): string[] =>
  options.askers
    .filter(asker => {
      const { decision, reason } = decide(match, asker, options)
      return decision === 'allow' && reason !== 'socketio'
    })
    .map(({ name }) => name)

/** Everything that a decision depends on. */
const keyOf = (match: RouteMatch): string => {
  if (match.route === undefined) return match.refusal
  const { route, alsoReadAs = [], alsoWrites = [] } = match
  return [...[route, ...alsoReadAs].map(({ number }) => number), ...alsoWrites.map(keyOf)].join()
}

/** Only the gateway itself is concerned. */
const isOwn = ({ route }: RouteMatch): boolean => route !== undefined && !isFromFiles(route)

const louder = (a: Difference, b: Difference): number =>
  b.weight - a.weight || (a.text < b.text ? -1 : a.text > b.text ? 1 : 0)

const notesOf = ({ was, now }: Group): Note[] =>
  was.route === undefined || now.route === undefined ? [] : compareOptions(was.route, now.route)

const unique = <T extends { readonly text: string }>(all: readonly T[]): T[] => {
  const texts = new Set<string>()
  return all.filter(({ text }) => !texts.has(text) && texts.add(text))
}

const differencesOf = (group: Group, all: readonly MethodClass[], options: CompareOptions): Difference[] => {
  const { was, now, example } = group
  const path = example.host + moreSpecific(was.route, now.route, example)
  const name = group.isSpelledOddly ? `${path} (spelled as in ${example.path})` : path
  const requests = asDifferences(name, methodWords(group.methods, all), group, group)
  if (was.route?.socketio === undefined && now.route?.socketio === undefined) return requests
  const namespaces = compareNamespaces(was.route, now.route, options)
  return requests.concat(
    namespaces.flatMap(one =>
      asDifferences(`${path} namespace ${one.name}`, [], changeOf(one.before, one.after), group)
    )
  )
}

const asDifferences = (
  name: string,
  methods: readonly string[],
  { before, after, opened, closed }: Change,
  { was, now, example, isSpelledOddly }: Group
) =>
  (['opened', 'closed'] as const).flatMap(change => {
    const who = change === 'opened' ? opened : closed
    if (who.length === 0) return []
    return {
      change,
      /** The id of the more specific route; `namespace …` for a Socket.IO namespace. */
      path: name,
      /** Empty: all methods; `*`: all methods that no route names. */
      methods,
      /** Who passes now and did not before, or the reverse. */
      who,
      text: sentence({ change, path: name, methods, who, before, after }),
      example,
      was: sideOf(was, before),
      now: sideOf(now, after),
      /** Severity: higher values are listed first. */
      weight: isSpelledOddly ? 0 : weigh(who, was.route !== undefined)
    }
  })

/** @param allowed everyone who passes */
const sideOf = ({ route }: RouteMatch, allowed: readonly string[]) => ({
  route: route?.id,
  place: route?.place,
  allowed
})

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

/** The path of the one with precedence. */
const moreSpecific = (was: Route | undefined, now: Route | undefined, { method, path }: Example): string => {
  if (was === undefined || now === undefined) return (was ?? now)?.path ?? path
  const both = atOnce(createTrie([was, now], asWritten, keepEarlier))
  const [first] = candidatesFor(both, method, shapeOf(path))
  return typeof first === 'object' ? first.path : now.path
}
