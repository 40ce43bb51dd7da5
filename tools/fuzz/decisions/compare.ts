// Compares `diff`, `explain` and `replay` with the oracle on one pair of tables.
import { randomUUID } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { type Comparison, compareTables } from '../../../gateway/cli/compare-tables.ts'
import { readTable } from '../../../gateway/cli/read-routes.ts'
import { explain } from '../../../gateway/explain/explain.ts'
import { readWho } from '../../../gateway/route-files/who.ts'
import type { RouteTable } from '../../../gateway/routes/route.ts'
import { portariaHere } from '../../../test/support/cli-here.ts'
import { createRandom, type Fuzz } from '../mutate.ts'
import {
  decideEvent,
  decideFound,
  type Found,
  findRoute,
  hostsOf,
  idOf,
  isOutside,
  NOBODY,
  type Person,
  type RouteSpec,
  routesAt,
  type Verdict
} from './model.ts'
import {
  type AskedEvent,
  type AskedRequest,
  EVERYBODY,
  eventOf,
  PEOPLE,
  PROFILES,
  pairOf,
  requestFor,
  requestOf,
  type Table
} from './tables.ts'

const OPTIONS = { cloudUnassignedMayPass: false }
/** Anybody may have an account there, so `cloud-unassigned` passes nothing, as in test lines. */
export const SETTINGS = { CLOUDIDP_TENANT_ID: 'common' }
const REQUESTS = 24
const EVENTS = 8

export const fileOf = (routes: Table, url = 'http://127.0.0.1:4001', tests: readonly string[] = []) =>
  stringify({ upstreams: { up: { url } }, profiles: PROFILES, routes, tests }, { aliasDuplicateObjects: false })

/** As in test lines. */
export const wordsOf = ({ who, address }: Person): string => (address === undefined ? who : `${who} from ${address}`)

export const askerOf = (person: Person, { profiles, grants }: RouteTable) => {
  const { asker, complaint } = readWho(wordsOf(person), { profiles, grants })
  if (asker === undefined) throw new Error(complaint)
  return { name: person.who, ...asker }
}

/** One table as files, and as the gateway reads them. */
type Side = Awaited<ReturnType<typeof sideOf>>

const sideOf = async (folder: string, routes: Table) => {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'routes.yaml'), fileOf(routes))
  return { routes, folder, table: await readTable(folder) }
}

/** As in test lines. */
export const addressed = ({ method, host, path }: AskedRequest): string =>
  `${method} ${host === undefined ? '' : `https://${host}`}${path}`

/** Plain paths are read in one way by everybody, so what `diff` says about them must name their own routes. */
const isPlain = ({ path }: AskedRequest): boolean => /^(?:\/[a-z0-9]+)*\/?$/.test(path) && path !== '/'

/** Names of those people whom a decision lets pass. */
const allowed = (address: string | undefined, decide: (person: Person) => Verdict): string[] =>
  PEOPLE.filter(person => decide({ ...person, address }) === 'allow').map(({ who }) => who)

const passers = (routes: Table, { method, host, path, address }: AskedRequest) => {
  const search = findRoute(routesAt(routes, host), method, path)
  const route = search.found.kind === 'route' ? search.found.route : undefined
  // Requests to a Socket.IO route say nothing about access: its namespaces are compared instead.
  const isHttp = route?.socketio === undefined
  const who = isHttp ? allowed(address, person => decideFound(search, person).verdict) : []
  if (method === 'MOVE' && route !== undefined && isHttp) {
    // It deletes its source (RFC 4918 §9.9). A public route knows no person there either.
    const { found, concerned } = findRoute(routesAt(routes, host), 'DELETE', path)
    const isBeside =
      found.kind === 'route' && found.route.upstream === route.upstream && found.route.external === route.external
    const mayDelete = (person: Person): Verdict =>
      isBeside ? decideFound({ found, concerned }, route.public ? { ...NOBODY, address } : person).verdict : '403'
    const deleting = allowed(address, mayDelete)
    return { who: who.filter(name => deleting.includes(name)), route, concerned: search.concerned }
  }
  return { who, route, concerned: search.concerned }
}

const CHANGES = ['opened', 'closed'] as const
type Report = Comparison['opened'][number]

/** Everyone who gains or loses access without a report that fits. */
const unreported = (
  what: string,
  [was, now]: readonly [readonly string[], readonly string[]],
  comparison: Comparison,
  isAbout: (report: Report) => boolean
): string[] =>
  CHANGES.flatMap(change => {
    const [before, after] = change === 'opened' ? [was, now] : [now, was]
    const reported = new Set(comparison[change].filter(isAbout).flatMap(({ who }) => who))
    const changed = after.filter(name => !before.includes(name) && !reported.has(name))
    return changed.map(name => `${what} is not reported as ${change}: ${name}`)
  })

/** Whether the same routes apply to two hosts, in each of two tables. */
const isSameHost = (before: Side, after: Side, one: string, other: string | undefined): boolean =>
  [before, after].every(({ routes }) => routesAt(routes, one).every(route => routesAt(routes, other).includes(route)))

const isHttp = ({ path }: Report): boolean => !path.includes(' namespace ')

const diffFaults = (comparison: Comparison, before: Side, after: Side, requests: readonly AskedRequest[]): string[] => {
  const missed = requests.flatMap(request => {
    const [was, now] = [passers(before.routes, request), passers(after.routes, request)]
    const [wasId, nowId] = [was.route && idOf(was.route), now.route && idOf(now.route)]
    const isAbout = (report: Report): boolean => {
      if (!isHttp(report) || !isSameHost(before, after, report.example.host, request.host)) return false
      const [from, to] = [report.was.route, report.now.route]
      if (isPlain(request) && from === wasId && to === nowId) return true
      return [from, to].some(id => id !== undefined && (was.concerned.has(id) || now.concerned.has(id)))
    }
    // What only some routes allow in paths is a note on the route.
    const isNoted =
      /%2f|;|%3b|\/\//i.test(request.path) && comparison.notes.some(({ text }) => text.includes(': allowInPath '))
    return [
      ...(isNoted ? [] : unreported(addressed(request), [was.who, now.who], comparison, isAbout)),
      ...looserFaults(was, now, comparison.notes)
    ]
  })
  const wrong = CHANGES.flatMap(change =>
    comparison[change].filter(isHttp).flatMap(({ who, example: plain, path, text }) => {
      const example = { ...plain, address: / from ([\d.:a-f]+)$/.exec(path)?.[1] }
      const [was, now] = [passers(before.routes, example).who, passers(after.routes, example).who]
      const [without, having] = change === 'opened' ? [was, now] : [now, was]
      const isTrue = who.every(name => !without.includes(name) && having.includes(name))
      return isTrue ? [] : [`${text}: the example ${example.method} ${example.path} shows something else`]
    })
  )
  return [...missed, ...wrong]
}

const HOUR_S = 3600
/** 0: without end. */
const seconds = (text: unknown): number =>
  text === '0'
    ? Number.POSITIVE_INFINITY
    : Number.parseInt(String(text), 10) * (String(text).endsWith('h') ? HOUR_S : 60)

/** What one may do on a route, each by its own measure: more is looser. */
const freedoms = ({ maxBody, rateLimit, websocket, allowInPath }: RouteSpec): Readonly<Record<string, number>> => {
  const windowS = Number.parseInt(rateLimit?.window ?? '1', 10)
  return {
    maxBody: maxBody ?? Number.POSITIVE_INFINITY,
    rateLimit: rateLimit?.max ?? Number.POSITIVE_INFINITY,
    'rateLimit ': rateLimit === undefined ? Number.POSITIVE_INFINITY : (HOUR_S / windowS) * rateLimit.max,
    websocket: websocket === undefined ? 0 : 1,
    ...(websocket !== undefined && {
      'websocket.tokenInQuery': websocket.tokenInQuery === true ? 1 : 0,
      'websocket.maxMessage': Number(websocket.maxMessage ?? 1024 * 1024),
      'websocket.messagesPerSecond': Number(websocket.messagesPerSecond ?? 20_000),
      'websocket.maxLifetime': seconds(websocket.maxLifetime ?? '0'),
      'websocket.idleTimeout': seconds(websocket.idleTimeout ?? '1h')
    }),
    ...Object.fromEntries((allowInPath ?? []).map(name => [`allowInPath ${name}`, 1]))
  }
}

type Passing = ReturnType<typeof passers>

const looserFaults = (was: Passing, now: Passing, notes: readonly { text: string; looser: boolean }[]): string[] => {
  if (was.route === undefined || now.route === undefined || was.route.upstream === undefined) return []
  if (now.route.upstream === undefined || was.route.socketio !== undefined || now.route.socketio !== undefined)
    return []
  const [old, next] = [freedoms(was.route), freedoms(now.route)]
  const id = idOf(now.route)
  return Object.entries(next).flatMap(([freedom, value]) => {
    const [name = ''] = freedom.split(' ')
    const isNew = old[freedom] === undefined && !name.startsWith('websocket.')
    const isLooser = isNew || (old[freedom] !== undefined && value > old[freedom])
    const isSaid = notes.some(({ text, looser }) => looser && text.startsWith(`${id}: ${name} `))
    return isLooser && !isSaid ? [`${id} is not reported as looser: ${name}`] : []
  })
}

const eventFaults = (comparison: Comparison, before: Side, after: Side, events: readonly AskedEvent[]): string[] => {
  const all = [...before.routes, ...after.routes]
  const paths = new Set(all.flatMap(route => (route.socketio ? [route.path] : [])))
  const hosts = ['', ...new Set(all.flatMap(hostsOf))]
  return [...paths].flatMap(path =>
    hosts.flatMap(host =>
      events.flatMap(({ namespace, event, address }) => {
        const passing = ({ routes }: Side): string[] => {
          const route = routesAt(routes, host).find(each => each.path === path && each.socketio !== undefined)
          return route === undefined ? [] : allowed(address, person => decideEvent(route, namespace, event, person))
        }
        const isAbout = (report: Report): boolean => report.path.startsWith(`${host}${path} namespace `)
        const what = `EVENT ${namespace} ${event} on ${host}${path}`
        return unreported(what, [passing(before), passing(after)], comparison, isAbout)
      })
    )
  )
}

const explainFaults = ({ routes, table }: Side, request: AskedRequest): string[] => {
  const { method, host, path, address } = request
  const search = findRoute(routesAt(routes, host), method, path)
  const faults = new Set<string>()
  for (const person of EVERYBODY.map(each => ({ ...each, address }))) {
    const outcome = decideFound(search, person)
    const { decision, candidates } = explain(
      table,
      { method, host, target: path, asker: askerOf(person, table) },
      OPTIONS
    )
    if (String(decision.decision) !== outcome.verdict)
      faults.add(`${wordsOf(person)} gets ${outcome.verdict}, explained as ${decision.decision} (${decision.reason})`)
    const chosen = candidates.filter(candidate => candidate.chosen).map(({ route }) => route.id)
    const wanted = outcome.route === undefined ? '' : idOf(outcome.route)
    if (chosen.join() !== wanted) faults.add(`the route is "${wanted}", explained as "${chosen.join()}"`)
  }
  return [...faults].map(fault => `${addressed(request)}: ${fault}`)
}

const CODES: Readonly<Record<Exclude<Verdict, 'allow'>, string>> = {
  400: 'GW_BAD_PATH',
  401: 'GW_UNAUTHENTICATED',
  403: 'GW_FORBIDDEN',
  404: 'GW_NO_ROUTE',
  405: 'GW_METHOD_NOT_ALLOWED'
}

/** Asked directly, external routes do not exist. */
const direct = (routes: Table, { method, host, path, address }: AskedRequest, person: Person): Verdict => {
  const search = findRoute(routesAt(routes, host), method, path)
  return decideFound({ ...search, found: withoutExternal(search.found) }, { ...person, address }).verdict
}

const withoutExternal = (found: Found): Found => {
  if (found.kind === 'route') return found.route.external === true ? { kind: 'none' } : found
  if (found.kind !== 'method') return found
  const all = found.all.filter(({ external }) => external !== true)
  return all.length === 0 ? { kind: 'none' } : { ...found, all, isPublic: all.every(each => each.public === true) }
}

/** The line that the gateway logs, and who asks as far as the line says it. */
const logged = (routes: Table, request: AskedRequest, person: Person) => {
  const verdict = direct(routes, request, person)
  const { found } = findRoute(routesAt(routes, request.host), request.method, request.path)
  const isRefusedBefore = found.kind === 'route' && isOutside(found.route, { ...person, address: request.address })
  const isChecked =
    !isRefusedBefore && found.kind !== 'none' && (found.kind === 'route' ? found.route.public : found.isPublic) !== true
  const known = isChecked || found.kind === 'none' ? person : NOBODY
  const identity =
    known.profiles === undefined
      ? {}
      : {
          user: 7,
          profiles: known.profiles,
          accessStatus: known.isAssigned ? 'assigned' : 'unassigned',
          provider: known.kind
        }
  const decision = verdict === 'allow' ? { decision: 'allow' } : { decision: 'refuse', code: CODES[verdict] }
  const line = JSON.stringify({
    msg: 'request',
    ...request,
    ip: request.address ?? '203.0.113.9',
    ...decision,
    ...identity
  })
  return { line, known, verdict }
}

const replayFaults = async (from: Side, to: Side, requests: readonly AskedRequest[]): Promise<string[]> => {
  const lines = requests
    // The log of a preflight does not say what it asked for.
    .filter(({ method }) => method !== 'OPTIONS')
    .flatMap(request => EVERYBODY.map(person => ({ request, ...logged(from.routes, request, person) })))
  const tally = (changes: Iterable<readonly [was: string, now: string, count: number]>) => {
    const counts = new Map<string, number>()
    for (const [was, now, count] of changes)
      if (was !== now) counts.set(`${was} → ${now}`, (counts.get(`${was} → ${now}`) ?? 0) + count)
    return counts
  }
  const expected = tally(lines.map(({ request, known, verdict }) => [verdict, direct(to.routes, request, known), 1]))
  const { stdout, stderr } = await portariaHere(['replay', '-', '--config', to.folder, '--json'], {
    env: { ...SETTINGS, PUBLIC_URL: 'http://gateway.invalid' },
    input: lines.map(({ line }) => line).join('\n')
  })
  if (stdout === '') return [`replay could not run: ${stderr}`]
  const result = JSON.parse(stdout) as {
    decisions: number
    changes: readonly { was: string; now: string; count: number; example: string }[]
  }
  const found = tally(result.changes.map(({ was, now, count }) => [was, now, count]))
  const faults = result.decisions === lines.length ? [] : [`replay read ${result.decisions} of ${lines.length} lines`]
  for (const change of new Set([...expected.keys(), ...found.keys()])) {
    const [wanted, counted] = [expected.get(change) ?? 0, found.get(change) ?? 0]
    const examples = result.changes.filter(({ was, now }) => `${was} → ${now}` === change).map(({ example }) => example)
    if (wanted !== counted) faults.push(`replay counts ${counted} instead of ${wanted} of ${change}, e.g. ${examples}`)
  }
  return faults
}

/** One route a line. */
export const describe = (routes: Table): string => routes.map(route => JSON.stringify(route)).join('\n    ')

/** Returns the number of pairs compared. */
export const fuzzDecisions = async ({ seed, goesOn, onFault }: Fuzz): Promise<number> => {
  const random = createRandom(seed)
  const folder = join(tmpdir(), `portaria-decisions-${randomUUID()}`)
  let done = 0
  try {
    for (; goesOn(done); done++) {
      const [old, next] = pairOf(random)
      const [before, after] = [await sideOf(join(folder, 'old'), old), await sideOf(join(folder, 'new'), next)]
      const requests = Array.from({ length: REQUESTS }, (_, index) =>
        index % 2 === 0 || old.length === 0 ? requestOf(random) : requestFor(random, old)
      )
      const events = Array.from({ length: EVENTS }, () => eventOf(random))
      const comparison = compareTables(before.table, after.table, OPTIONS)
      const faults = [
        ...diffFaults(comparison, before, after, requests),
        ...eventFaults(comparison, before, after, events),
        ...requests.flatMap(request => explainFaults(before, request)),
        ...(await replayFaults(before, before, requests.slice(0, 6))).map(fault => `same files: ${fault}`),
        ...(await replayFaults(before, after, requests.slice(0, 6)))
      ]
      for (const fault of faults) onFault(fault, `    ${describe(old)}\n  →\n    ${describe(next)}`)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return done
}
