// Describes the gateway under test, by the paths that are given, taken from route files, or its own, and detects that a probe got in.
import { randomBytes } from 'node:crypto'
import type { Route } from '../../routes/route.ts'
import { shapeOf, takesMethod } from '../../routes/route-trie.ts'
import { CannotRun } from '../command.ts'
import { readTable } from '../read-routes.ts'
import type { DoctorClient, Header, Probe, ProbeAnswer } from './client.ts'

export type Surroundings = Awaited<ReturnType<typeof surroundingsOf>>

export interface GivenPaths {
  readonly config?: string
  readonly private?: readonly string[]
  readonly public?: readonly string[]
  readonly websocket?: readonly string[]
}

/** The gateway's own endpoints; other gateways may lack them. */
const OWN = ['/auth/admin/users', '/auth/me']
const MAX_PATHS = 3

/** @param host of the gateway: other hosts may have other routes */
export const surroundingsOf = async (given: GivenPaths, host: string) => {
  const table = given.config === undefined ? undefined : await readTable(given.config)
  const routes = table?.routesAt(host).filter(isProxied) ?? []
  const closed = routes.filter(route => !route.public && route.socketio === undefined)
  const examples = (of: readonly Route[]) => of.slice(0, MAX_PATHS).map(example)
  const paths = [...new Set([...(given.private ?? []), ...examples(closed.sort(byRoles))])]
  const open = [...(given.public ?? []), ...examples(routes.filter(route => route.public))].slice(0, MAX_PATHS)
  const withSockets = routes.filter(({ websocket }) => websocket !== undefined)
  const sockets = [...(given.websocket ?? []), ...examples(withSockets)].slice(0, MAX_PATHS)
  if ([...paths, ...open, ...sockets].some(path => !/^\/[\x21-\x7e]*$/.test(path)))
    throw new CannotRun('Paths must begin with / and must not contain spaces')
  return {
    /** Paths that should require a token; those that are not given may be missing. */
    candidates: [...paths.map(path => ({ path, isGiven: true })), ...OWN.map(path => ({ path, isGiven: false }))],
    /** Paths that require no token. */
    open,
    sockets,
    /** Some of the hosts that route files name, without wildcards. */
    hosts: (table?.hosts ?? []).filter(name => name !== host && !name.startsWith('*')).slice(0, MAX_PATHS)
  }
}

const isProxied = (route: Route): boolean => route.upstream !== undefined && takesMethod(route, 'GET')

// Routes with the fewest roles first, because most is at stake there; routes without roles last.
const byRoles = (a: Route, b: Route): number => (a.roles?.length ?? 99) - (b.roles?.length ?? 99)

const example = ({ path }: Route): string =>
  `/${shapeOf(path)
    .map(segment => (segment.startsWith(':') || segment === '*' ? 'x1' : segment))
    .join('/')}`

export interface DoctorWorld extends Omit<Surroundings, 'candidates'> {
  readonly client: DoctorClient
  readonly hasHttp2: boolean
  /** Paths that refuse requests without a token, with 401 or 403; at least one. */
  readonly closed: readonly { readonly path: string; readonly status: number }[]
  /** The first of them. */
  readonly path: string
  /** A closed path that refuses the given token too, because its owner lacks a role. */
  readonly forbidden: string | undefined
  /** No closed path accepts it; without any token, false. */
  readonly isTokenInvalid: boolean
  /** One that should be valid, if one was given. */
  readonly token: string | undefined
  /** The Authorization field that carries it; without a token, none. */
  readonly bearer: readonly Header[]
  /** Observations that are not weaknesses. */
  readonly notes: string[]
  /** The gateway's secret, if it may be used to sign tokens that must nevertheless be refused. */
  readonly secret: string | undefined
}

/** Evidence, one line each; empty: the gateway is safe in this respect. */
type Look = (world: DoctorWorld) => Promise<string[]>

/** One known weakness, and how to detect it. */
export interface Check {
  /** By default high. */
  readonly severity?: 'high' | 'medium' | 'low'
  readonly title: string
  readonly fix: string
  readonly look: Look
}

/** By id. */
export type Checks = Readonly<Record<string, Check>>

export const isSuccess = ({ status }: ProbeAnswer): boolean => status >= 200 && status < 300

export const show = ({ method = 'GET', target }: Probe, { status }: ProbeAnswer): string =>
  `${method} ${target} → ${status}`

/** Random letters of the same length as `text`, so that the path exists on no gateway. */
export const noise = (text: string): string =>
  text.replace(/[A-Za-z0-9]/g, () => String.fromCharCode(97 + ((randomBytes(1)[0] ?? 0) % 26)))

/** A path beside this one that exists nowhere. */
export const besides = (path: string): string => path.replace(/[^/]*$/, noise)

/** A text that nothing else contains. */
export const createMark = (): string => `doctor${randomBytes(6).toString('hex')}`

/**
 * Whether a spelling of a closed path gets in: a successful response that the same spelling of a nonexistent path does
 * not get. A page that is served for every path is therefore no evidence.
 */
export const getsIn = async (
  { client }: DoctorWorld,
  path: string,
  probeFor: (path: string) => Probe,
  elsewhere = noise
): Promise<string | undefined> => {
  const probe = probeFor(path)
  const answer = await client.ask(probe)
  if (!isSuccess(answer)) return undefined
  const controls = new Set<string>()
  for (let control = 0; control < CONTROLS; control += 1) {
    const nowhere = elsewhere(path)
    const other = await client.ask(probeFor(nowhere))
    if (other.status !== answer.status) return show(probe, answer)
    controls.add(essence(other.body, [probeFor(nowhere).target, nowhere]))
  }
  // Bodies that change from one request to the next prove nothing.
  const looksTheSame = controls.size > 1 || controls.has(essence(answer.body, [probe.target, path]))
  return looksTheSame ? undefined : show(probe, answer)
}

const CONTROLS = 2

// Bodies may repeat the requested path, as it was sent or as it was read, and number their requests.
const essence = (body: string, paths: readonly string[]): string =>
  paths
    .flatMap(path => [path, ...path.split('/').filter(part => part.length > 1)])
    .reduce((text, part) => text.replaceAll(part, ''), body)
    .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+/gi, '')

/** Evidence from several probes, sent one after the other. */
export const collect = async <T>(items: readonly T[], look: (item: T) => Promise<string | undefined>) => {
  const evidence: string[] = []
  for (const item of items) {
    const found = await look(item)
    if (found !== undefined) evidence.push(found)
  }
  return evidence
}

/** A probe for a path, and what evidence says after it. */
type Way = readonly [probeFor: (path: string) => Probe, how: string]

/** A check for ways to get in to the first closed path. */
export const tries =
  (ways: (world: DoctorWorld) => readonly Way[]): Look =>
  world =>
    collect(ways(world), async ([probeFor, how]) => {
      const found = await getsIn(world, world.path, probeFor)
      return found && `${found} ${how}`.trimEnd()
    })

/** The marks that a response repeats, as a backend's does that answers with what it received. */
export const repeated = async ({ client }: DoctorWorld, probe: Probe, marks: readonly Header[]) => {
  const answer = await client.ask(probe)
  const seen = [...answer.headers.values(), answer.body].join('\n')
  const names = marks.filter(([, mark]) => seen.includes(mark)).map(([name]) => name)
  return names.length === 0 ? undefined : { probe: show(probe, answer), names: names.join(', ') }
}
