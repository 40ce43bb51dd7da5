// Runs the lines under `tests:` against the routes beside them, and complains where one does not hold.
import { PROFILES, type Provider } from '../identity.ts'
import { splitTarget } from '../routes/canonical-path.ts'
import { type Asker, decide } from '../routes/decide.ts'
import { dnKey } from '../routes/distinguished-names.ts'
import { type Grants, groupKey, NO_GRANTS, namesIn } from '../routes/grants.ts'
import type { Place, RouteMatch, RouteTable } from '../routes/route.ts'
import { decideEventOnRoutes } from '../routes/socketio-rules.ts'
import { nearestHint } from '../values/spelling.ts'
import { type Complaint, complain } from './complaint.ts'

export interface RouteTest {
  readonly line: string
  readonly place: Place
}

const GROUP = /^(group|claim):"((?:[^"\\]|\\.)+)"$/
const LINE = /^([A-Z][A-Z0-9-]*)\s+(\S+)\s+as\s+((?:group|claim):"(?:[^"\\]|\\.)+"|\S+)\s+->\s+(\S+)$/
const EVENT_LINE = /^EVENT\s+(\S+)\s+(\S+)\s+as\s+((?:group|claim):"(?:[^"\\]|\\.)+"|\S+)\s+->\s+(\S+)$/
const OUTCOMES = ['allow', '400', '401', '403', '404', '405']

/**
 * Judges every line `METHOD PATH as WHO -> OUTCOME`, or `EVENT NAMESPACE NAME as WHO -> OUTCOME` on each route that lists
 * the namespace. WHO is `anonymous`, `unassigned` (a directory user without profile
 * and area), one or several roles joined by `+` (an assigned directory user), or `group:"DN"` and `claim:"VALUE"`
 * (somebody who is in this group alone, with what `grants:` give); OUTCOME is `allow` or the status of the
 * refusal. A query is allowed and takes no part. A line whose match `isJudged` turns down says nothing.
 */
export const runRouteTests = (
  table: RouteTable,
  tests: readonly RouteTest[],
  isJudged: (match: RouteMatch) => boolean = () => true
): Complaint[] =>
  tests.flatMap(({ line, place }) => {
    const message = runLine(table, line.trim(), isJudged)
    return message === undefined ? [] : [complain(place, message)]
  })

/** Whether a line can be read at all; says what is wrong with it. */
export const judgeTestLine = (line: string, profiles: readonly string[] = PROFILES): string | undefined => {
  const isEvent = /^EVENT\s/.test(line.trim())
  const [, , target, who, outcome] = (isEvent ? eventParts(line) : LINE.exec(line.trim())) ?? []
  if (target === undefined || who === undefined || outcome === undefined) {
    return `a test must have the form ${isEvent ? 'EVENT NAMESPACE NAME' : 'METHOD PATH'} as WHO -> OUTCOME`
  }
  if (!target.startsWith('/')) return `the ${isEvent ? 'namespace' : 'path'} of a test must begin with /`
  if (!OUTCOMES.includes(outcome)) return `unknown outcome "${outcome}": must be allow, 400, 401, 403, 404 or 405`
  if (who === 'anonymous' || who === 'unassigned') return undefined
  const [, kind, group = ''] = GROUP.exec(who) ?? []
  if (kind !== undefined) return judgeGroup(kind, group)
  if (/^(?:group|claim):/.test(who)) return 'a group must be written in quotes, as in group:"CN=Suporte,DC=corp"'
  const unknown = who.split('+').find(role => !profiles.includes(role))
  if (unknown === undefined) return undefined
  return `unknown role "${unknown}"${nearestHint(unknown, [...profiles, 'anonymous', 'unassigned'])}`
}

const judgeGroup = (kind: string, group: string): string | undefined =>
  kind === 'claim' || (dnKey(group) ?? '[]') !== '[]' ? undefined : `"${group}" is no distinguished name`

/** In the places of a plain line's: the namespace is its target. */
const eventParts = (line: string): (string | undefined)[] | undefined => {
  const [all, namespace, event, who, outcome] = EVENT_LINE.exec(line.trim()) ?? []
  return all === undefined ? undefined : [all, event, namespace, who, outcome]
}

const runLine = (table: RouteTable, line: string, isJudged: (match: RouteMatch) => boolean): string | undefined => {
  const [, event, namespace, asker, outcome] = eventParts(line) ?? []
  if (event !== undefined && namespace !== undefined && asker !== undefined) {
    return runEventLine(table, { namespace, event, asker, outcome }, isJudged)
  }
  const [, method, target, who, expected] = LINE.exec(line) ?? []
  if (method === undefined || target === undefined || who === undefined) return judgeTestLine(line, table.profiles)
  const match = matchTarget(table, method, target)
  if (!isJudged(match)) return undefined
  const { decision, reason } = decide(match, askerOf(who, table.grants), { cloudUnassignedMayPass: false })
  if (String(decision) === expected) return undefined
  const by = match.route === undefined ? '' : ` by the route "${match.route.id}"`
  return `the test expects ${expected}, but the answer is ${decision}${by} (${reason})`
}

const runEventLine = (
  table: RouteTable,
  {
    namespace,
    event,
    asker,
    outcome
  }: { namespace: string; event: string; asker: string; outcome: string | undefined },
  isJudged: (match: RouteMatch) => boolean
): string | undefined => {
  const options = { cloudUnassignedMayPass: false }
  for (const { route, decision } of decideEventOnRoutes(
    table,
    { namespace, event },
    askerOf(asker, table.grants),
    options
  )) {
    if (route !== undefined && !isJudged({ route, path: route.path })) continue
    if (String(decision.decision) === outcome) continue
    const by = route === undefined ? '' : ` by the route "${route.id}"`
    return `the test expects ${outcome}, but the answer is ${decision.decision}${by} (${decision.reason})`
  }
  return undefined
}

/** The match of a request target in origin-form; its query takes no part. */
export const matchTarget = (table: RouteTable, method: string, target: string): RouteMatch => {
  const split = splitTarget(target)
  if (split.refusal !== undefined) return { refusal: 'bad-path', reason: split.refusal }
  return table.match(method, split.path)
}

/** A made-up person as test lines and `explain` name them. */
export const askerOf = (who: string, grants: Grants = NO_GRANTS): Asker => {
  if (who === 'anonymous') return {}
  if (who === 'unassigned') return { user: { profiles: [], accessStatus: 'unassigned', provider: 'ldap' } }
  const [, kind, group = ''] = GROUP.exec(who) ?? []
  if (kind !== undefined) return memberOf(kind === 'group' ? 'ldap' : 'cloudidp', group, grants)
  return { user: { profiles: who.split('+'), accessStatus: 'assigned', provider: 'ldap' } }
}

/** Somebody who is in one group and was assigned nothing. A claim is one of whichever tenant the grant is for. */
const memberOf = (provider: Provider, group: string, grants: Grants): Asker => {
  const key = groupKey(provider, group) ?? ''
  const given = grants.list.filter(grant => grant.provider === provider && groupKey(provider, grant.group) === key)
  const profiles = namesIn(given, 'profiles')
  const isAssigned = profiles.length > 0 && given.some(({ areas }) => areas.length > 0)
  return { user: { profiles, accessStatus: isAssigned ? 'assigned' : 'unassigned', provider } }
}
