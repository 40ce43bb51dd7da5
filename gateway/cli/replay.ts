// Re-evaluates past requests under other route files, and counts what would change by route and role.
import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { onlyOf } from '../access/match-route.ts'
import { BadPath, Forbidden, MethodNotAllowed, NoRoute, Unassigned } from '../errors.ts'
import type { NamedAsker } from '../explain/askers.ts'
import { type AskedTarget, matchTarget } from '../route-files/test-lines.ts'
import { type DecideOptions, type Decision, decide } from '../routes/decide.ts'
import { isFromFiles, type RouteTable } from '../routes/route.ts'
import { linesOf } from '../values/lines.ts'
import { readRecord } from '../values/records.ts'
import { type Add, CannotRun, type Cli, type Report } from './command.ts'
import { decideOptions, routeFolder } from './command-settings.ts'
import { readTable } from './read-routes.ts'
import { type Terminal, table } from './terminal.ts'

export const addReplay: Add = (program, define) =>
  define(program, 'replay', replay, 're-evaluate the requests of an access log with new route files', [
    'replay access.log --config upstream-config',
    'replay access.log.1.gz --config new --json',
    'replay - --config new < access.log'
  ])
    .argument('<log>', "the gateway's log (JSON lines, optionally .gz), or - for standard input")
    .option('--config <folder>', 'directory of the new route files (default: UPSTREAM_CONFIG, else upstream-config)')
    .addHelpText('after', HELP)

const HELP = `
Only decisions on access are replayed, not rate limits, logins and preflights. The log does not say who
sent a request to a public route; under the new route files, such requests count as anonymous. If the new route
files name hosts, PUBLIC_URL must be the same as for the gateway, because the log leaves its host out.`

interface Change {
  readonly route: string
  readonly role: string
  readonly was: Decision['decision']
  readonly now: Decision['decision']
  readonly example: string
  count: number
}

type Tally = ReturnType<typeof newTally>

const newTally = () => ({
  changes: new Map<string, Change>(),
  decisions: 0,
  unchanged: 0,
  foreign: 0,
  other: 0,
  /** Changes beyond the number that is listed individually. */
  uncounted: 0
})

const MAX_CHANGES = 10_000
const HOST_NEEDED =
  'The route files name hosts, and the log leaves out that of PUBLIC_URL: set PUBLIC_URL to the same value as for the gateway'

const replay = async (cli: Cli, log: string, { config }: { readonly config?: string }): Promise<Report> => {
  const routes = await readTable(routeFolder(cli.environment, config))
  const options = decideOptions(cli.environment)
  const publicHost = URL.parse(cli.environment.PUBLIC_URL ?? '')?.hostname
  const tally = newTally()
  for await (const line of readLines(cli, log)) {
    const past = readPastDecision(line)
    if (past === 'foreign') tally.foreign += line.trim() === '' ? 0 : 1
    else if (past === 'other') tally.other += 1
    else {
      const host = past.host ?? publicHost
      if (host === undefined && routes.hosts.length > 0) throw new CannotRun(HOST_NEEDED)
      count(tally, { ...past, host }, routes, options)
    }
  }
  if (tally.decisions === 0 && tally.other === 0) {
    throw new CannotRun(`${log} contains no access log lines (${tally.foreign} other lines)`)
  }
  const changes = [...tally.changes.values()].sort(louder)
  const { decisions, unchanged, foreign, other, uncounted } = tally
  return {
    found: changes.length > 0,
    json: { decisions, unchanged, foreign, other, uncounted, changes },
    text: terminal => textOf(changes, tally, terminal)
  }
}

const count = (tally: Tally, past: PastDecision, routes: RouteTable, options: DecideOptions): void => {
  const match = onlyOf(matchTarget(routes, past.method, past), past.isForwardAuth)
  const now = decide(match, past.asker, options).decision
  const isUnchanged = now === past.decision
  // An own endpoint is the same whatever the route files say, and refuses for reasons of its own, such as a wrong client secret.
  const isOwn = match.route !== undefined && !isFromFiles(match.route)
  // Where it would have written to may have refused it, and the log does not say where.
  const isWrite = past.decision !== 'allow' && (past.method === 'COPY' || past.method === 'MOVE')
  if (!isUnchanged && (isOwn || isWrite)) {
    tally.other += 1
    return
  }
  tally.decisions += 1
  if (isUnchanged) {
    tally.unchanged += 1
    return
  }
  const route = match.route?.id ?? past.route ?? 'no route'
  const key = JSON.stringify([route, past.asker.name, past.decision, now])
  const known = tally.changes.get(key)
  if (known !== undefined) known.count += 1
  else if (tally.changes.size >= MAX_CHANGES) tally.uncounted += 1
  else {
    const origin = routes.hosts.length === 0 ? '' : `https://${past.host}`
    const example = `${past.method} ${origin}${past.target}`.slice(0, 200)
    tally.changes.set(key, { route, role: past.asker.name, was: past.decision, now, example, count: 1 })
  }
}

// Newly allowed requests come first, then newly refused ones, then refusals that change.
const rank = ({ was, now }: Change): number => (now === 'allow' ? 0 : was === 'allow' ? 1 : 2)

const louder = (a: Change, b: Change): number =>
  rank(a) - rank(b) || b.count - a.count || (a.example < b.example ? -1 : 1)

const textOf = (changes: readonly Change[], tally: Tally, terminal: Terminal): string => {
  const { red, yellow, green, dim } = terminal
  const paint = (change: Change) => [red, yellow, dim][rank(change)] ?? dim
  const leftOut = `${tally.other} lines with other decisions and ${tally.foreign} other lines were skipped`
  const summary = `${tally.decisions} decisions, ${tally.decisions - tally.unchanged} would change; ${leftOut}.`
  if (changes.length === 0) return green(summary)
  const rows = changes.map(change => [
    String(change.count),
    { text: `${change.was} → ${change.now}`, paint: paint(change) },
    change.role,
    change.route,
    change.example
  ])
  return `${table(['requests', 'decision', 'role', 'route', 'first seen'], rows, terminal)}\n\n${summary}`
}

/** Longer lines cannot be access-log lines. */
const MAX_LINE_CHARACTERS = 256 * 1024

/** Lines of a file, decompressed if its name ends in `.gz`; `-` is standard input. Throws {@link CannotRun}. */
async function* readLines(cli: Cli, file: string): AsyncGenerator<string> {
  try {
    yield* linesOf(open(cli, file), MAX_LINE_CHARACTERS)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    throw new CannotRun(`${file} cannot be read (${code})`)
  }
}

const open = (cli: Cli, file: string): AsyncIterable<Buffer | string> => {
  if (file === '-') return cli.stdin
  const bytes = createReadStream(file, { highWaterMark: 256 * 1024 })
  if (!file.endsWith('.gz')) return bytes
  const unpacked = createGunzip()
  bytes.on('error', error => unpacked.destroy(error))
  return bytes.pipe(unpacked)
}

interface PastDecision extends AskedTarget {
  readonly method: string
  /** Its id; undefined: none was found. */
  readonly route: string | undefined
  readonly asker: NamedAsker
  /** Asked by another proxy at /auth/forward. */
  readonly isForwardAuth: boolean
  readonly decision: Decision['decision']
}

/** `foreign`: not an access-log line. `other`: decided by something other than routes and roles, e.g. a rate limit. */
type PastLine = PastDecision | 'foreign' | 'other'

const STATUS_OF_CODE: Readonly<Record<string, Decision['decision']>> = {
  [BadPath.code]: 400,
  GW_UNAUTHENTICATED: 401,
  GW_TOKEN_EXPIRED: 401,
  GW_TOKEN_REVOKED: 401,
  GW_TOKEN_STALE: 401,
  [Forbidden.code]: 403,
  [Unassigned.code]: 403,
  [NoRoute.code]: 404,
  [MethodNotAllowed.code]: 405
}

/** Codes of failures that occur only after a request has been allowed. */
const AFTER_ACCESS: ReadonlySet<string> = new Set([
  'GW_UPSTREAM_UNREACHABLE',
  'GW_UPSTREAM_TIMEOUT',
  'GW_BAD_UPSTREAM_RESPONSE',
  'GW_BODY_TOO_LARGE'
])

/** Reads a line as `access-log.ts` writes it; anything else in a log is ignored. */
const readPastDecision = (line: string): PastLine => {
  // Log collectors may prepend a time stamp, or append a carriage return.
  const entry = readRecord(line.replace(/^[^{]*/, ''))
  if (entry?.msg !== 'request') return 'foreign'
  const { method, host, path, route, decision, forwardAuth } = entry
  if (typeof method !== 'string' || typeof path !== 'string' || typeof decision !== 'string') return 'foreign'
  const past = decisionOf(entry)
  if (past === undefined || isPreflight(entry, past) || dependsOnMore(entry) || !path.startsWith('/')) return 'other'
  return {
    method,
    host: typeof host === 'string' ? host : undefined,
    target: path,
    route: typeof route === 'string' ? route : undefined,
    asker: askerOf(entry),
    isForwardAuth: forwardAuth === true,
    decision: past
  }
}

type Entry = Readonly<Record<string, unknown>>

const decisionOf = ({ decision, code }: Entry): Decision['decision'] | undefined => {
  if (decision === 'allow') return 'allow'
  if (typeof code !== 'string') return undefined
  if (AFTER_ACCESS.has(code)) return 'allow'
  return decision === 'refuse' ? STATUS_OF_CODE[code] : undefined
}

// A preflight is checked by the method that it requests, which the line does not contain. It may be forwarded, and never has a token.
const isPreflight = ({ method, reason, user }: Entry, past: Decision['decision']): boolean =>
  reason === 'preflight' ||
  (method === 'OPTIONS' && user === undefined && (past === 'allow' || reason === 'address' || reason === 'lax-reading'))

/** Where a COPY or MOVE wrote to; what the Engine.IO protocol, or Max-Forwards, does not allow; a # in the query; what the log encodes. */
const OTHER_REASONS: readonly unknown[] = [
  'destination',
  'engineio-method',
  'max-forwards',
  'fragment',
  'raw-character'
]

/** Of a path for which there is no route, the log has so many characters. */
const MOST_WITHOUT_ROUTE = 256

// What the line does not contain decided, such as which proxy asked; or nothing did, as the client left while the limiter waited.
const dependsOnMore = ({ path, route, reason, status }: Entry): boolean =>
  path === '/auth/forward' ||
  OTHER_REASONS.includes(reason) ||
  (reason === 'client-gone' && status === undefined) ||
  (route === undefined && typeof path === 'string' && path.length >= MOST_WITHOUT_ROUTE)

const askerOf = ({ profiles, accessStatus, provider, tokenKind, ip }: Entry): NamedAsker => {
  const address = typeof ip === 'string' ? ip : undefined
  const isPerson = Array.isArray(profiles) && profiles.every(profile => typeof profile === 'string')
  if (!isPerson) return { name: 'anonymous', address }
  const isCloud = provider === 'cloudidp'
  const isAssigned = accessStatus === 'assigned'
  const unassigned = isCloud ? 'cloud-unassigned' : 'unassigned'
  const words = profiles.length === 0 ? unassigned : profiles.toSorted().join('+')
  const name = !isAssigned && profiles.length > 0 ? `${words} (${unassigned})` : words
  const isClient = provider === 'client'
  const kind = isClient ? 'client' : tokenKind === 'personal' ? 'personal' : 'login'
  const user = {
    profiles,
    accessStatus: isAssigned ? 'assigned' : 'unassigned',
    provider: isCloud ? 'cloudidp' : isClient ? 'client' : 'ldap'
  } as const
  return { name: isClient ? `client ${name}` : name, user, kind, address }
}
