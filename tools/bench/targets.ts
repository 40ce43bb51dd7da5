// Every figure that is asked of the gateway, by name, with its bound.
import type { Group } from './options.ts'
import type { Spread } from './statistics.ts'

interface Target {
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
  /** What the reader must know to check it, e.g. a smaller count than asked. */
  readonly note?: string
}

const most = (group: Group, title: string, bound: number, unit = '×') =>
  ({ group, title, bound, unit, direction: 'at most' }) as const
const least = (group: Group, title: string, bound: number, unit = '×') =>
  ({ group, title, bound, unit, direction: 'at least' }) as const

const table = {
  'vs-haproxy': most('http', 'full request ÷ HAProxy jwt_verify writing one header, CPU', 1.1),
  'vs-haproxy-nine': most('http', 'full request ÷ HAProxy jwt_verify writing nine headers, CPU', 0.72),
  'vs-nginx': most('http', 'full request ÷ nginx auth_request + njs, CPU', 0.7),
  'vs-relay': most('http', 'full request ÷ a relay in C that reads no HTTP, CPU', 2.2),
  'vs-http-proxy': most('http', 'full request ÷ @fastify/http-proxy without auth, CPU', 0.35),
  'vs-naive': most('http', 'full request ÷ naive stack, CPU', 0.18),
  'https-backend': most('http', 'full request with an https backend ÷ HAProxy jwt_verify with the same, CPU', 1.3),
  'https-backend-post': most('http', 'POST of 5 B to an https backend − GET, median of one at a time', 2, 'ms'),
  'redis-vs-memory': most('http', 'counting in Redis ÷ in memory, CPU', 1.06),
  'resident-memory': most('http', 'RSS at saturation', 170, 'MB'),
  'p99-saturated': most('http', 'p99 at saturation ÷ nginx', 1.0),
  'p99-vs-nginx': most('http', 'p99 at half of saturation ÷ nginx', 1.2),
  'paced-vs-nginx': most('http', 'full request at 5,000 requests/s ÷ nginx auth_request + njs, CPU', 1.0),
  'paced-vs-haproxy': most('http', 'full request at 5,000 requests/s ÷ HAProxy jwt_verify, CPU', 1.15),
  'never-seen': most('tokens', 'token never seen before − known token, CPU', 40, 'µs'),
  'tokens-in-turn': most('tokens', '20,000 tokens in turn ÷ one token, CPU', 1.1),
  'tokens-memory': most('tokens', '20,000 tokens in turn − one token, RSS', 30, 'MB'),
  forged: most('tokens', 'forged token ÷ a relay in C, CPU', 1.3),
  'over-limit': most('limits', 'over-limit request ÷ a relay in C, CPU', 0.9),
  'redis-commands': most('limits', 'Redis commands per request, addresses at ten times the limit', 0.1, ''),
  admitted: most('limits', 'admitted over two instances ÷ max, worst address', 1.0),
  'body-down-growth': most('bodies', '1 GB down, growth of RSS over idle', 20, 'MB'),
  'body-up-growth': most('bodies', '1 GB up, growth of RSS over idle', 20, 'MB'),
  'body-down-rate': least('bodies', "1 GB down, rate ÷ nginx's", 0.95),
  'body-up-rate': least('bodies', "1 GB up, rate ÷ nginx's", 0.95),
  'idle-socket-5000': most('websocket', 'an idle authorised WebSocket of 5,000', 10, 'KB'),
  'idle-socket': most('websocket', 'an idle authorised WebSocket of 10,000', 10, 'KB'),
  message: most('websocket', "a WebSocket message both ways ÷ nginx's, CPU", 1.6),
  'flood-health': most('floods', 'slowest /health while sockets are flooded', 300, 'ms'),
  'flood-echo': most('floods', "median of a quiet person's echo meanwhile", 100, 'ms'),
  'h2-vs-haproxy': most('h2', 'HTTP/2 request ÷ HAProxy jwt_verify terminating HTTP/2, CPU', 2.0),
  'h2-vs-nginx': most('h2', 'HTTP/2 request ÷ nginx auth_request + njs terminating HTTP/2, CPU', 2.0),
  https: most('tls', 'HTTPS at the gateway ÷ in front of it by HAProxy, CPU of all', 0.95),
  'idle-connection': most('crowds', 'an idle keep-alive connection of 10,000', 6, 'KB'),
  'pipelined-wait': most('crowds', 'slowest /health while 100 connections pipeline 64 KB and read nothing', 300, 'ms'),
  'pipelined-growth': most('crowds', 'growth of RSS meanwhile', 30, 'MB'),
  'crowds-wait': most('crowds', 'p99 of /health under four crowds at once', 300, 'ms'),
  'crowds-left': most('crowds', 'RSS when they have left ÷ after an earlier visit', 1.05),
  'grants-listening': most('grants', 'start with changed grants for 200,000 people, until it listens', 5000, 'ms'),
  'grants-done': most('grants', 'the same, until everyone has them', 120, 's'),
  'grants-linear': most('grants', 'time for all of them ÷ four times that for a quarter', 1.3),
  'audit-migration': most('audit', 'longest wait of a login while two million entries are migrated', 1000, 'ms'),
  'audit-check': most('audit', 'check of two million entries, ten minutes of 20 processes, CPU of all', 1, 's'),
  'audit-pages': most('audit', 'slowest page of two million entries', 300, 'ms'),
  'people-pages': most('audit', 'slowest page of 200,000 people', 50, 'ms'),
  start: most('start', 'CPU of a start of the build with PostgreSQL and Redis, to listening', 450, 'ms')
} as const satisfies Record<string, Omit<Target, 'id'>>

export type TargetId = keyof typeof table

export const targets: readonly (Target & { readonly id: TargetId })[] = (Object.keys(table) as TargetId[]).map(id => ({
  id,
  ...table[id]
}))

const central = (value: number | Spread): number => (typeof value === 'number' ? value : value.median)

export type Verdict = 'PASS' | 'FAIL' | 'not measured here'

export const check = (target: Target, finding: Finding | undefined): Verdict => {
  if (finding === undefined) return 'not measured here'
  const value = central(finding.value)
  const isMet = target.direction === 'at most' ? value <= target.bound : value >= target.bound
  return isMet ? 'PASS' : 'FAIL'
}
