// Explains the decision on a request: its path, every route that could match it, why each lost, and the result.
import { Forbidden, NoRoute, Unauthenticated } from '../errors.ts'
import type { RequestHost } from '../http/client-address.ts'
import { formatLocation } from '../route-files/complaint.ts'
import { type AskedTarget, matchTarget } from '../route-files/test-lines.ts'
import { canonicalPath, splitTarget } from '../routes/canonical-path.ts'
import { type DecideOptions, type Decision, decide } from '../routes/decide.ts'
import { reasonInWords } from '../routes/decision-words.ts'
import { forwardedPath, type Route, type RouteMatch, type RouteTable } from '../routes/route.ts'
import { shapeOf, takesMethod } from '../routes/route-trie.ts'
import type { SourceLocation } from '../values/source-location.ts'
import { hostName } from '../values/urls.ts'
import { askersWith, type NamedAsker } from './askers.ts'

/** Of the target, a query is ignored. */
export interface Question extends AskedTarget {
  readonly method: string
  readonly asker: NamedAsker
  /** The asker sent an unacceptable token: the response of a private route to it. */
  readonly tokenFault?: { readonly code: string; readonly reason: string } | undefined
  /** The host whose routes decide; absent: the one that is asked for. */
  readonly countsAs?: string | undefined
}

/** What a host that was asked for, with its port, counts as; absent if none was. */
export const countedHost = (address: string, requestHost: RequestHost, table: RouteTable): string | undefined => {
  const said = URL.parse(address)?.host
  return said === undefined ? undefined : hostName(requestHost(said, table) ?? '')
}

export type Explanation = Readonly<ReturnType<typeof explain>>

/** The result of `decide(matchTarget(…))`, with its reasons. Looks at every route: not for the hot path. */
export const explain = (table: RouteTable, asked: Question, options: DecideOptions) => {
  const question = table.hosts.length === 0 ? { ...asked, host: undefined } : asked
  const { method, target, asker, tokenFault } = question
  const decided = { ...question, host: question.host && (question.countsAs ?? question.host) }
  const match = matchTarget(table, method, decided)
  const isForwardAuth = target.split('?', 1)[0] === '/auth/forward'
  const decision = isForwardAuth ? FORWARD_AUTH : withToken(decide(match, asker, options), tokenFault)
  const path = match.route === undefined ? pathOf(table, target) : match.path
  const candidates = path === undefined ? [] : candidatesOf(table, decided, path, match)
  return {
    question,
    /** After canonicalisation; undefined if the path is refused. */
    path,
    /** The chosen route first, then the others from most to least specific. */
    candidates,
    match,
    decision,
    words: wordsOf(table, decided, path, match, decision) + countedWords(question),
    /** The path that the upstream receives; undefined unless the request is forwarded. */
    forwarded:
      decision.decision === 'allow' && match.route?.upstream ? forwardedPath(match.route, match.path) : undefined,
    /** The decision on the same request for every other kind of person. */
    others: askersWith(table.profiles).map(other => ({
      name: other.name,
      decision: decide(match, { ...other, address: asker.address }, options)
    }))
  }
}

/** Who may ask there does not depend on roles. */
const FORWARD_AUTH: Decision = { decision: 403, code: Forbidden.code, reason: 'forward-auth-peer' }

const wordsOf = (
  table: RouteTable,
  question: Question,
  path: string | undefined,
  match: RouteMatch,
  decision: Decision
): string => {
  if (decision === FORWARD_AUTH)
    return 'This endpoint of the gateway decides requests that another proxy asks about (forward-auth): only proxies in TRUST_PROXY may ask.'
  const words = reasonInWords(decision, match, question.asker) + hostWords(table, question)
  if (decision.reason === 'lax-reading') return words + laxWords(table, question, path, match)
  const isExternal = decision.decision === 'allow' && match.route?.external === true
  return isExternal
    ? `${words} The route is external: this is the answer at /auth/forward; asked directly, it is 404 ${NoRoute.code}.`
    : words
}

/** Which routes apply to the host, if hosts choose any. */
const hostWords = ({ hosts, namesHost }: RouteTable, { host = '' }: Question): string => {
  if (hosts.length === 0) return ''
  return namesHost(host)
    ? ' Only the routes that name this host apply.'
    : ` No route names ${host === '' ? 'a host here' : 'this host'}, so only the routes without "host" apply.`
}

const countedWords = ({ host, countsAs }: Question): string =>
  host === undefined || countsAs === undefined || countsAs === host
    ? ''
    : ` The host "${host}" is neither named by a route nor in ALLOWED_HOSTS, so it counts as that of PUBLIC_URL, "${countsAs}".`

/** `file:line`, as people and terminals read it. */
export const lineOf = ({ file, line }: SourceLocation): string =>
  file === 'gateway' ? "the gateway's own" : `${file}:${line}`

/** As JSON, for `--json` and the administration API. */
export const explanationJson = (explanation: Explanation) => {
  const { question, path, candidates, match, decision, words, forwarded, others } = explanation
  return {
    method: question.method,
    ...(question.host === undefined ? {} : { host: question.host }),
    target: question.target,
    path: path ?? '',
    as: question.asker.name,
    decision: decision.decision,
    code: decision.code ?? '',
    reason: decision.reason,
    words,
    route: match.route?.id ?? '',
    place: match.route === undefined ? '' : formatLocation(match.route.place),
    upstream: forwarded === undefined ? '' : (match.route?.upstream?.name ?? ''),
    forwarded: forwarded ?? '',
    candidates: candidates.map(({ route, chosen, why }) => ({
      id: route.id,
      place: formatLocation(route.place),
      chosen,
      why
    })),
    everybody: Object.fromEntries(others.map(other => [other.name, String(other.decision.decision)]))
  }
}

// A refused token matters only if a token is required at all.
export const withToken = (decision: Decision, fault: Question['tokenFault']): Decision =>
  fault === undefined || decision.code !== Unauthenticated.code
    ? decision
    : { decision: 401, code: fault.code, reason: fault.reason }

const pathOf = (table: RouteTable, target: string): string | undefined => {
  const split = splitTarget(target)
  if (split.refusal !== undefined) return undefined
  const exceptions = [...new Set(table.routes.flatMap(route => route.allowInPath))]
  return canonicalPath(split.path, exceptions).path
}

const candidatesOf = (table: RouteTable, { method, host }: Question, path: string, match: RouteMatch) => {
  const found = table.candidates(method, path, host)
  const hiddenFrom = found.indexOf('reserved')
  const routes = found.filter(candidate => candidate !== 'reserved')
  const winner = match.route ?? routes.find(route => takesMethod(route, method))
  const why = (route: Route, index: number): string => {
    if (route === match.route) return 'the most specific route for this method'
    if (hiddenFrom !== -1 && index >= hiddenFrom)
      return 'this path belongs to the gateway and cannot be served by route files'
    return route === winner ? 'it would be chosen, but the path is refused' : whyLost(route, winner, method)
  }
  return routes
    .map((route, index) => ({ route, chosen: route === match.route, why: why(route, index) }))
    .sort((a, b) => Number(b.chosen) - Number(a.chosen))
}

const laxWords = (table: RouteTable, { method, host }: Question, path: string | undefined, match: RouteMatch) => {
  const [cut] = match.route === undefined ? [] : (match.alsoReadAs ?? [])
  if (cut !== undefined)
    return ` A backend that cuts extensions off, runs scripts or serves index files would read the path as one of the route "${cut.id}" (${lineOf(cut.place)}), which must admit the request too (unless the route says allowInPath: [extension]).`
  const other = path === undefined ? undefined : table.misread(method, path, host)
  if (other === undefined) return ''
  const where = other.route === undefined ? 'no route' : `the route "${other.route.id}" (${lineOf(other.route.place)})`
  return ` Read as ${other.path} it would belong to ${where}.`
}

/** Why `route` was not chosen for a method, compared with the route that was (if any). */
const whyLost = (route: Route, winner: Route | undefined, method: string): string => {
  if (!takesMethod(route, method)) {
    if (method === 'CONNECT') return 'no route takes CONNECT'
    return route.methods === undefined
      ? `takes ${method} only if its methods name it`
      : `takes ${[...route.methods].join(', ')}, not ${method}`
  }
  if (winner === undefined) return 'the path is refused'
  const [mine, theirs] = [shapeOf(route.path), shapeOf(winner.path)]
  const at = theirs.findIndex((segment, index) => rankOf(segment) > rankOf(mine[index]))
  if (at !== -1) {
    const [better, worse] = [theirs[at] ?? '', mine[at]]
    return `"${better}" in "${winner.id}" is more specific than ${worse === undefined ? 'the end' : `"${worse}"`} here`
  }
  if (theirs.length < mine.length) return `"${winner.id}" matches this path exactly; this route covers it only with "*"`
  return `"${winner.id}" names the method ${method}`
}

// Static before `:param` before `*`; the end of a path before a `*` that would cover nothing.
const rankOf = (segment: string | undefined): number => {
  if (segment === undefined) return 2
  if (segment === '*') return 1
  return segment.startsWith(':') ? 2 : 3
}
