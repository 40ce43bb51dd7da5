// Requests are counted for the route that they matched, whatever tables come and go meanwhile.
import t from 'tap'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { createRequestCounters, type RequestCounters, STATUS_CLASSES } from '../../gateway/observe/request-counters.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import type { Route, RouteTable } from '../../gateway/routes/route.ts'
import { buildRouteTable } from '../../gateway/routes/route-table.ts'
import { atOnce } from '../support/route-files.ts'

const tableOf = (paths: readonly string[]): RouteTable => {
  const [own] = ownRoutes()
  if (own === undefined) throw new Error('the gateway has routes of its own')
  const routes = paths.map(path => ({ ...own, id: path, path, methods: undefined }))
  return atOnce(buildRouteTable({ routes, upstreams: new Map(), checksum: '' }))
}

const answered = (route: Route | undefined, status = 200): Exchange =>
  ({
    route,
    request: { connection: { isHttp2: false } },
    response: { hasBegun: true, status },
    upstreamMs: 1,
    headMs: 2,
    startedAt: 0
  }) as unknown as Exchange

const countsOf = (counters: RequestCounters): Record<string, number> =>
  Object.fromEntries(
    counters
      .routes()
      .map(({ id, requests }): [string, number] => [id, requests.reduce((sum, count) => sum + count, 0)])
      .filter(([, count]) => count > 0)
  )

t.test('a request of a replaced table counts for its own route', async t => {
  const counters = createRequestCounters()
  const before = tableOf(['/a', '/b', '/c'])
  const after = tableOf(['/c', '/d'])
  const [a, b, c] = before.routes
  const [, d] = after.routes
  counters.record(answered(a), 2)
  counters.retain(before)
  for (const route of [a, b, b, c]) counters.record(answered(route), 2)
  t.same(countsOf(counters), { '/a': 2, '/b': 2, '/c': 1 }, 'before and after the first table')
  counters.retain(after)
  for (const route of [b, c, d, undefined]) counters.record(answered(route), 2)
  t.same(countsOf(counters), { '/b': 1, '/c': 2, '/d': 1, other: 1 }, 'one gone, one kept, one new')
})

t.test('more than 500 routes share the last one, and each of the first keeps its own', async t => {
  const counters = createRequestCounters()
  const table = tableOf(Array.from({ length: 2000 }, (_, index) => `/r${index}`))
  counters.retain(table)
  for (let round = 0; round < 2; round++) for (const route of table.routes) counters.record(answered(route), 2)
  const counts = countsOf(counters)
  t.equal(counts.other, 3000)
  t.equal(Object.values(counts).filter(count => count === 2).length, 500)
})

t.test('statuses above 599, which backends may send, count as errors of the server and nothing else', async t => {
  const counters = createRequestCounters()
  for (const status of [404, 503, 600, 999]) counters.record(answered(undefined, status), 2)
  const [other] = counters.routes()
  const counted = Object.fromEntries(STATUS_CLASSES.map((name, index) => [name, other?.requests[index]]))
  t.same(counted, { none: 0, '1xx': 0, '2xx': 0, '3xx': 0, '4xx': 1, '5xx': 3 })
})
