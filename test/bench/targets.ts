// Every figure that is asked of the gateway, by name, with its bound.
import type { Group } from './options.ts'
import type { Spread } from './statistics.ts'

export interface Target {
  readonly id: string
  readonly group: Group
  readonly title: string
  readonly bound: number
  readonly direction: 'at most' | 'at least'
  readonly unit: string
}

/** What a run found for a target; a single measurement has no spread. */
export interface Finding {
  readonly target: TargetId
  readonly value: number | Spread
  /** What the reader must know to judge it, e.g. a smaller count than asked. */
  readonly note?: string
}

const most = (group: Group, title: string, bound: number, unit = '×') =>
  ({ group, title, bound, unit, direction: 'at most' }) as const
const least = (group: Group, title: string, bound: number, unit = '×') =>
  ({ group, title, bound, unit, direction: 'at least' }) as const

const table = {
  'vs-http-proxy': most('http', 'full request ÷ @fastify/http-proxy without auth, CPU', 0.45),
  'vs-naive': most('http', 'full request ÷ naive stack, CPU', 0.25),
  'vs-nginx': most('http', 'full request ÷ nginx auth_request + njs, CPU', 1.0),
  'vs-haproxy': most('http', 'full request ÷ HAProxy jwt_verify, CPU', 1.5),
  'vs-haproxy-then': most('http', 'full request ÷ HAProxy jwt_verify, CPU, second goal', 1.2),
  'redis-vs-memory': most('http', 'counting in Redis ÷ in memory, CPU', 1.1),
  'p99-vs-nginx': most('http', 'p99 at half of saturation ÷ nginx', 2.0),
  'never-seen': most('tokens', 'token never seen before − known token, CPU', 60, 'µs'),
  forged: most('tokens', 'forged token ÷ authorised request, CPU', 0.5),
  'token-start': most('access-tokens', 'start with 100,000 live access tokens − with 1,000', 1000, 'ms'),
  'token-request': most('access-tokens', 'request by access token, of 100,000 live − of 1,000, CPU', 1, 'µs'),
  'token-memory': most('access-tokens', 'RSS with 100,000 live access tokens − with 1,000', 60, 'MB'),
  'token-guesses': most('access-tokens', 'database transactions per guessed access token', 0.001, ''),
  'header-keys': most('header-keys', 'preserveHost, two set headers and CORS − a route without, CPU', 2, 'µs'),
  'over-limit': most('limits', 'over-limit request ÷ authorised request, CPU', 0.5),
  'redis-commands': most('limits', 'Redis commands per request, addresses at ten times the limit', 0.1, ''),
  admitted: most('limits', 'admitted over two instances ÷ max, worst address', 1.0),
  'many-routes': most('routes', '10,000 routes ÷ 10 routes, CPU', 1.1),
  'reload-time': most('routes', 'reload of 10,000 routes', 500, 'ms'),
  'reload-stall': most('routes', 'slowest request during that reload (a stall: over 100 ms)', 100, 'ms'),
  'body-down-growth': most('bodies', '1 GB down, growth of RSS over idle', 30, 'MB'),
  'body-up-growth': most('bodies', '1 GB up, growth of RSS over idle', 30, 'MB'),
  'body-down-rate': least('bodies', "1 GB down, rate ÷ nginx's", 0.7),
  'body-up-rate': least('bodies', "1 GB up, rate ÷ nginx's", 0.7),
  'idle-socket': most('websocket', 'an idle authorised WebSocket of 10,000', 20, 'KB'),
  message: most('websocket', "a WebSocket message both ways ÷ nginx's, CPU", 2.5),
  million: most('soak', 'RSS after a million requests ÷ after half a million', 1.1),
  soak: most('soak', 'RSS at the end of a soak of 20 minutes ÷ at half of it', 1.1),
  start: most('start', 'start with an external database, to listening', 1000, 'ms')
} as const satisfies Record<string, Omit<Target, 'id'>>

export type TargetId = keyof typeof table

export const targets: readonly (Target & { readonly id: TargetId })[] = (Object.keys(table) as TargetId[]).map(id => ({
  id,
  ...table[id]
}))

export const central = (value: number | Spread): number => (typeof value === 'number' ? value : value.median)

export type Verdict = 'PASS' | 'FAIL' | 'not measured here'

export const judge = (target: Target, finding: Finding | undefined): Verdict => {
  if (finding === undefined) return 'not measured here'
  const value = central(finding.value)
  const isMet = target.direction === 'at most' ? value <= target.bound : value >= target.bound
  return isMet ? 'PASS' : 'FAIL'
}
