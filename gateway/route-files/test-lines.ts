// Runs the lines under `tests:` against the routes of their files, and complains about those that fail.
import { PROFILES } from '../identity.ts'
import { splitTarget } from '../routes/canonical-path.ts'
import { type Decision, decide } from '../routes/decide.ts'
import { reasonInWords } from '../routes/decision-words.ts'
import { NO_GRANTS } from '../routes/grants.ts'
import type { Place, Route, RouteMatch, RouteTable } from '../routes/route.ts'
import { decideEventOnRoutes } from '../routes/socketio-rules.ts'
import { hostName } from '../values/host-names.ts'
import { type Complaint, complain, formatPlace } from './complaint.ts'
import { formHint, methodComplaint, outcomeComplaint } from './hints/test-lines.ts'
import { readWho, WHO } from './who.ts'

export interface RouteTest {
  readonly line: string
  readonly place: Place
}

const LINE = new RegExp(String.raw`^([A-Z][A-Z0-9-]*)\s+(\S+)\s+as\s+(${WHO})\s+->\s+(\S+)$`)
const EVENT_LINE = new RegExp(String.raw`^EVENT\s+(\S+)\s+(\S+)\s+as\s+(${WHO})\s+->\s+(\S+)$`)
const OUTCOMES = ['allow', '400', '401', '403', '404', '405']
/** Tests must mean the same wherever the files are checked, so they ignore settings: no tenant is trusted. */
const OPTIONS = { cloudUnassignedMayPass: false }

/**
 * Runs every line `METHOD PATH as WHO -> OUTCOME`, the path alone or as `https://HOST/PATH`, or `EVENT NAMESPACE NAME as WHO -> OUTCOME` on each route that lists
 * the namespace. WHO is what `readWho` reads; OUTCOME is `allow` or the status of the refusal. A query is allowed but
 * ignored. A line whose match `isChecked` rejects has no result.
 */
export const runRouteTests = (
  table: RouteTable,
  tests: readonly RouteTest[],
  isChecked: (match: RouteMatch) => boolean = () => true
): Complaint[] =>
  tests.flatMap(({ line, place }) => {
    const message = runLine(table, line.trim(), isChecked)
    return message === undefined ? [] : [complain(place, message)]
  })

/** Whether a line can be parsed; reports what is wrong with it. */
export const checkTestLine = (
  line: string,
  profiles: readonly string[] = PROFILES,
  grants = NO_GRANTS
): string | undefined => {
  const isEvent = /^EVENT\s/.test(line.trim())
  const [, method = '', target, who, outcome] = (isEvent ? eventParts(line) : LINE.exec(line.trim())) ?? []
  if (target === undefined || who === undefined || outcome === undefined) {
    const form = `${isEvent ? 'EVENT NAMESPACE NAME' : 'METHOD PATH'} as WHO -> OUTCOME`
    return `a test must have the form ${form}${formHint(line.trim(), isEvent)}`
  }
  if (!isEvent && /^https?:/i.test(target)) {
    if (readTarget(target) === undefined)
      return 'the address of a test must have the form https://HOST/PATH, the host as browsers send it'
  } else if (!target.startsWith('/')) return `the ${isEvent ? 'namespace' : 'path'} of a test must begin with /`
  const complaint = isEvent ? undefined : methodComplaint(method)
  if (complaint !== undefined) return complaint
  if (!OUTCOMES.includes(outcome)) return outcomeComplaint(outcome)
  return readWho(who, { profiles, grants }).complaint
}

/** Mapped to the parts of an ordinary line: the namespace is its target. */
const eventParts = (line: string): (string | undefined)[] | undefined => {
  const [all, namespace, event, who, outcome] = EVENT_LINE.exec(line.trim()) ?? []
  return all === undefined ? undefined : [all, event, namespace, who, outcome]
}

const runLine = (table: RouteTable, line: string, isChecked: (match: RouteMatch) => boolean): string | undefined => {
  const [, event, namespace, asker, outcome] = eventParts(line) ?? []
  if (event !== undefined && namespace !== undefined && asker !== undefined) {
    return runEventLine(table, { line, namespace, event, asker, outcome }, isChecked)
  }
  const [, method, target, who, expected] = LINE.exec(line) ?? []
  if (method === undefined || target === undefined || who === undefined) return checkTestLine(line, table.profiles)
  const match = matchTarget(table, method, readTarget(target) ?? { target })
  if (!isChecked(match)) return undefined
  const { asker: person, complaint } = readWho(who, table)
  if (person === undefined) return complaint
  const decision = decide(match, person, OPTIONS)
  if (String(decision.decision) === expected) return undefined
  const words = reasonInWords(decision, match, { name: who, ...person })
  return failure({ line, expected, decision, route: match.route, words })
}

interface Failure {
  readonly line: string
  readonly expected: string | undefined
  readonly decision: Decision
  readonly route: Route | undefined
  readonly words: string
}

const failure = ({ line, expected, decision, route, words }: Failure): string => {
  const by = route === undefined ? '' : ` from the route "${route.id}" at ${formatPlace(route.place)}`
  return `the test "${line}" fails: expected ${expected}, got ${decision.decision} (${decision.reason})${by}. ${words}`
}

interface EventTest {
  readonly line: string
  readonly namespace: string
  readonly event: string
  readonly asker: string
  readonly outcome: string | undefined
}

const runEventLine = (
  table: RouteTable,
  { line, namespace, event, asker, outcome }: EventTest,
  isChecked: (match: RouteMatch) => boolean
): string | undefined => {
  const { asker: person, complaint } = readWho(asker, table)
  if (person === undefined) return complaint
  for (const { route, decision } of decideEventOnRoutes(table, { namespace, event }, person, OPTIONS)) {
    if (route !== undefined && !isChecked({ route, path: route.path })) continue
    if (String(decision.decision) === outcome) continue
    const words = `"portaria explain EVENT ${namespace} ${event} --as '${asker}'" says why.`
    return failure({ line, expected: outcome, decision, route, words })
  }
  return undefined
}

/** What is asked for, where a host may be written before it. */
export interface AskedTarget {
  /** In the form that `hostName` returns; absent: one that no route names. */
  readonly host?: string | undefined
  /** In origin-form, as sent. */
  readonly target: string
}

/** Of `/path` or `https://host/path`; undefined if it is neither, or requests for this host are refused. */
export const readTarget = (written: string): AskedTarget | undefined => {
  if (written.startsWith('/')) return { target: written }
  const [, authority = '', target = ''] = /^https?:\/\/([^/?#\\]+)(\/.*)$/i.exec(written) ?? []
  const host = hostName(authority)
  return host === undefined ? undefined : { host, target }
}

/** The match of a request target in origin-form; its query is ignored. */
export const matchTarget = (table: RouteTable, method: string, { host, target }: AskedTarget): RouteMatch => {
  const split = splitTarget(target)
  if (split.refusal !== undefined) return { refusal: 'bad-path', reason: split.refusal, public: true }
  return table.match(method, split.path, host)
}
