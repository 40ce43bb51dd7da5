// Runs the lines under `tests:` against the routes of their files, and complains about those that fail.
import { PROFILES } from '../identity.ts'
import { splitTarget } from '../routes/canonical-path.ts'
import { type Decision, decide } from '../routes/decide.ts'
import { reasonInWords } from '../routes/decision-words.ts'
import { NO_GRANTS } from '../routes/grants.ts'
import { matchBeside, type Route, type RouteMatch, type RouteTable } from '../routes/route.ts'
import { decideEventOnRoutes, engineFault } from '../routes/socketio-rules.ts'
import type { Parts } from '../values/in-parts.ts'
import type { SourceLocation } from '../values/source-location.ts'
import { hostName } from '../values/urls.ts'
import { type Complaint, complain, formatLocation } from './complaint.ts'
import { formHint, methodComplaint, outcomeComplaint } from './hints/test-lines.ts'
import { readWho, WHO } from './who.ts'

interface RouteTest {
  readonly line: string
  readonly place: SourceLocation
}

const LINE = new RegExp(
  String.raw`^(?:EVENT\s+(?<namespace>\S+)\s+(?<event>\S(?:.*?\S)??)|(?!EVENT\s)(?<method>[A-Z][A-Z0-9-]*)\s+(?<target>\S+))\s+as\s+(?<who>${WHO})\s+->\s+(?<outcome>\S+)$`
)
const OUTCOMES = ['allow', '400', '401', '403', '404', '405']
/** Tests must mean the same wherever the files are checked, so they ignore settings: no tenant is trusted. */
const OPTIONS = { cloudUnassignedMayPass: false }

/** Whether a line can be parsed; reports what is wrong with it. */
export const checkTestLine = (written: string, profiles: readonly string[] = PROFILES): string | undefined => {
  const line = written.trim()
  const parts = LINE.exec(line)?.groups
  if (parts === undefined) {
    const isEvent = /^EVENT\s/.test(line)
    const form = `${isEvent ? 'EVENT NAMESPACE NAME' : 'METHOD PATH'} as WHO -> OUTCOME`
    return `a test must have the form ${form}${formHint(line, isEvent)}`
  }
  const { namespace, method = '', target = '', who = '', outcome = '' } = parts
  if (/^https?:/i.test(target)) {
    if (readTarget(target) === undefined)
      return 'the address of a test must have the form https://HOST/PATH, the host as browsers send it'
  } else if (!(namespace ?? target).startsWith('/'))
    return `the ${namespace === undefined ? 'path' : 'namespace'} of a test must begin with /`
  const complaint = namespace === undefined ? methodComplaint(method) : undefined
  if (complaint !== undefined) return complaint
  if (!OUTCOMES.includes(outcome)) return outcomeComplaint(outcome)
  return readWho(who, { profiles, grants: NO_GRANTS }).complaint
}

/**
 * Runs every line `METHOD PATH as WHO -> OUTCOME`, the path alone or as `https://HOST/PATH`, or `EVENT NAMESPACE NAME as WHO ->
 * OUTCOME` on each route that lists the namespace. WHO is what `readWho` reads; OUTCOME is `allow` or the status of the refusal. A
 * query is ignored. All lines have passed `checkTestLine`. A line whose match `isChecked` rejects has no result. Each line is a part.
 */
export function* runRouteTests(
  table: RouteTable,
  tests: readonly RouteTest[],
  isChecked: (match: RouteMatch) => boolean = () => true
): Parts<Complaint[]> {
  const failures: Complaint[] = []
  for (const { line, place } of tests) {
    const message = runLine(table, line.trim(), isChecked)
    if (message !== undefined) failures.push(complain(place, message))
    yield
  }
  return failures
}

const runLine = (table: RouteTable, line: string, isChecked: (match: RouteMatch) => boolean): string | undefined => {
  const { namespace, event = '', method = '', target = '', who = '', outcome } = LINE.exec(line)?.groups ?? {}
  const failure = (decision: Decision, route: Route | undefined, words: string): string => {
    const by = route === undefined ? '' : ` from the route "${route.id}" at ${formatLocation(route.place)}`
    return `the test "${line}" fails: expected ${outcome}, got ${decision.decision} (${decision.reason})${by}. ${words}`
  }
  const { asker, complaint } = readWho(who, table)
  if (asker === undefined) return complaint
  if (namespace === undefined) {
    const match = matchTarget(table, method, readTarget(target) ?? { target })
    const decision = decide(match, asker, OPTIONS)
    if (!isChecked(match) || String(decision.decision) === outcome) return undefined
    return failure(decision, match.route, reasonInWords(decision, match, { name: who, ...asker }))
  }
  const failed = decideEventOnRoutes(table, { namespace, event }, asker, OPTIONS).find(
    ({ route, decision }) =>
      (route === undefined || isChecked({ route, path: route.path })) && String(decision.decision) !== outcome
  )
  const [inNamespace, named, as] = [namespace, event, who].map(shellWord)
  const words = `"portaria explain EVENT ${inNamespace} ${named} --as ${as}" says why.`
  return failed && failure(failed.decision, failed.route, words)
}

/** As a shell reads it back. */
const shellWord = (text: string): string => (/^[\w/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)

/** What is asked for, where a host may be written before it. */
export interface AskedTarget {
  /** In the form that `hostName` returns; absent: one that no route names. */
  readonly host?: string | undefined
  /** In origin-form, as sent. */
  readonly target: string
}

/** Of `/path` or `https://host/path`; undefined if it is neither, requests for this host are refused, or there is no such port. */
export const readTarget = (written: string): AskedTarget | undefined => {
  if (written.startsWith('/')) return { target: written }
  const [, authority = '', target = ''] = /^https?:\/\/([^/?#\\]+)(\/.*)$/i.exec(written) ?? []
  const host = hostName(authority)
  const port = Number(/:(\d+)$/.exec(authority)?.[1] ?? 0)
  return host === undefined || port > 65_535 ? undefined : { host, target }
}

/** The match of a request target in origin-form; its query is ignored. A MOVE deletes its source (RFC 4918 §9.9). */
export const matchTarget = (table: RouteTable, method: string, { host, target }: AskedTarget): RouteMatch => {
  const split = splitTarget(target)
  if (split.refusal !== undefined) return { refusal: 'bad-path', reason: split.refusal, public: true }
  const match = table.match(method, split.path, host)
  if (match.route === undefined) return match
  if (match.route.socketio !== undefined) return { ...match, engineFault: engineFault(match.route, method, match.path) }
  if (method !== 'MOVE') return match
  return { ...match, alsoWrites: [matchBeside(table, match.route, 'DELETE', match.path, host)] }
}
