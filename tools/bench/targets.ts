// Every figure that is asked of the gateway, by name, with its bound.
import { median } from './statistics.ts'

interface Target {
  readonly title: string
  readonly sign: '≤' | '≥'
  readonly bound: number
  readonly unit: string
}

const most = (title: string, bound: number, unit = '×'): Target => ({ title, sign: '≤', bound, unit })
const least = (title: string, bound: number, unit = '×'): Target => ({ title, sign: '≥', bound, unit })

export const TARGETS = {
  'vs-haproxy': most('full request ÷ HAProxy jwt_verify writing one header, CPU', 1.1),
  'vs-haproxy-nine': most('full request ÷ HAProxy jwt_verify writing nine headers, CPU', 0.72),
  'vs-nginx': most('full request ÷ nginx auth_request + njs, CPU', 0.7),
  'vs-relay': most('full request ÷ a relay in C that reads no HTTP, CPU', 2.2),
  'vs-http-proxy': most('full request ÷ @fastify/http-proxy without auth, CPU', 0.35),
  'vs-naive': most('full request ÷ naive stack, CPU', 0.18),
  'https-backend': most('full request with an https backend ÷ HAProxy jwt_verify with the same, CPU', 1.3),
  'https-backend-post': most('POST of 5 B to an https backend − GET, median of one at a time', 2, 'ms'),
  'redis-vs-memory': most('counting in Redis ÷ in memory, CPU', 1.06),
  'resident-memory': most('RSS at saturation', 170, 'MB'),
  'p99-saturated': most('p99 at saturation ÷ nginx', 1.0),
  'p99-vs-nginx': most('p99 at half of saturation ÷ nginx', 1.2),
  'paced-vs-nginx': most('full request at 5,000 requests/s ÷ nginx auth_request + njs, CPU', 1.0),
  'paced-vs-haproxy': most('full request at 5,000 requests/s ÷ HAProxy jwt_verify, CPU', 1.15),
  'never-seen': most('token never seen before − known token, CPU', 40, 'µs'),
  forged: most('forged token ÷ a relay in C, CPU', 1.3),
  'over-limit': most('over-limit request ÷ a relay in C, CPU', 0.9),
  'redis-commands': most('Redis commands per request, addresses at ten times the limit', 0.1, ''),
  admitted: most('admitted over two instances ÷ max, worst address', 1.0),
  'body-down-growth': most('1 GB down, growth of RSS over idle', 20, 'MB'),
  'body-up-growth': most('1 GB up, growth of RSS over idle', 20, 'MB'),
  'body-down-rate': least("1 GB down, rate ÷ nginx's", 0.95),
  'body-up-rate': least("1 GB up, rate ÷ nginx's", 0.95),
  'idle-socket': most('an idle authorised WebSocket of 10,000', 10, 'KB'),
  message: most("a WebSocket message both ways ÷ nginx's, CPU", 1.6),
  'flood-health': most('slowest /health while sockets are flooded', 300, 'ms'),
  'flood-echo': most("median of a quiet person's echo meanwhile", 100, 'ms'),
  'h2-vs-haproxy': most('HTTP/2 request ÷ HAProxy jwt_verify terminating HTTP/2, CPU', 2.0),
  'h2-vs-nginx': most('HTTP/2 request ÷ nginx auth_request + njs terminating HTTP/2, CPU', 2.0),
  https: most('HTTPS at the gateway ÷ in front of it by HAProxy, CPU of all', 0.95),
  'pipelined-wait': most('slowest /health while 100 connections pipeline 64 KB and read nothing', 300, 'ms'),
  'pipelined-growth': most('growth of RSS meanwhile', 30, 'MB'),
  'crowds-wait': most('p99 of /health under four crowds at once', 300, 'ms'),
  'grants-listening': most('start with changed grants for 200,000 people, until it listens', 5000, 'ms'),
  'grants-done': most('the same, until everyone has them', 120, 's'),
  'grants-linear': most('time for all of them ÷ four times that for a quarter', 1.3),
  'audit-check': most('check of two million entries, ten minutes of 20 processes, CPU of all', 1, 's'),
  'audit-pages': most('slowest page of two million entries', 300, 'ms'),
  'people-pages': most('slowest page of 200,000 people', 50, 'ms'),
  start: most('CPU of a start of the build with PostgreSQL and Redis, to listening', 450, 'ms')
} satisfies Record<string, Target>

export type TargetId = keyof typeof TARGETS

/** What a run found for a target. */
export interface Finding {
  readonly target: TargetId
  /** An entry a round. */
  readonly values: readonly number[]
}

/** By the median over the rounds. */
export const verdictOf = ({ target, values }: Finding): 'PASS' | 'FAIL' => {
  const { sign, bound } = TARGETS[target]
  const value = median(values)
  return (sign === '≤' ? value <= bound : value >= bound) ? 'PASS' : 'FAIL'
}
