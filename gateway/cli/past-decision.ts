// Reads a line of the access log as a past decision on access, or says why it is not one.
import { BadPath, Forbidden, MethodNotAllowed, NoRoute, Unassigned } from '../errors.ts'
import type { NamedAsker } from '../explain/askers.ts'
import type { AskedTarget } from '../route-files/test-lines.ts'
import type { Decision } from '../routes/decide.ts'
import { isRecord } from '../values/records.ts'

export interface PastDecision extends AskedTarget {
  readonly method: string
  /** The id of the person; undefined: there was no token. */
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
export const readPastDecision = (line: string): PastLine => {
  const entry = parse(line)
  if (entry === undefined || entry.msg !== 'request') return 'foreign'
  const { method, host, path, route, decision, forwardAuth } = entry
  if (typeof method !== 'string' || typeof path !== 'string' || typeof decision !== 'string') return 'foreign'
  const past = decisionOf(entry)
  if (past === undefined || isPreflight(entry) || dependsOnMore(entry) || !path.startsWith('/')) return 'other'
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

const parse = (line: string): Entry | undefined => {
  // Log collectors may prepend a time stamp, or append a carriage return.
  const start = line.indexOf('{')
  if (start === -1) return undefined
  try {
    const value: unknown = JSON.parse(line.slice(start))
    return isRecord(value) ? (value as Entry) : undefined
  } catch {
    return undefined
  }
}

const decisionOf = ({ decision, code }: Entry): Decision['decision'] | undefined => {
  if (decision === 'allow') return 'allow'
  if (typeof code !== 'string') return undefined
  if (AFTER_ACCESS.has(code)) return 'allow'
  return decision === 'refuse' ? STATUS_OF_CODE[code] : undefined
}

// A preflight is checked by the method that it requests, which the line does not contain.
const isPreflight = ({ method, reason, status, user }: Entry): boolean =>
  reason === 'preflight' || (method === 'OPTIONS' && status === 204 && user === undefined)

// What the line does not contain decided: which proxy asked, or where a COPY or MOVE wrote to.
const dependsOnMore = ({ path, reason }: Entry): boolean => path === '/auth/forward' || reason === 'destination'

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
