// The routes that a request must pass are those by which any backend, however lax, might serve it: brute force finds the same.
// RW-10, RW-11, RW-40, RW-41, RW-42, RW-52, RW-53, RW-55, RW-62, RW-86, RW-92
// RT-01, RT-02, RT-03, RT-04, RT-05, RT-06, RT-07, RT-08, RT-09, RT-11, RT-12, RT-23, RT-31
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import type { RouteMatch } from '../../gateway/routes/route.ts'
import { fileOf } from '../../tools/fuzz/decisions/compare.ts'
import { findRoute, idOf, type RouteSpec, routesAt } from '../../tools/fuzz/decisions/model.ts'
import { requestFor, requestOf, tableOf } from '../../tools/fuzz/decisions/tables.ts'
import { createRandom } from '../../tools/fuzz/mutate.ts'
import { makeFolder } from '../support/server-process.ts'

const TABLES = 2000
const REQUESTS = 60

/** The route, then those that must admit the request too; or why there is none, and whether anybody may hear it. */
const foundBy = (match: RouteMatch): string => {
  if (match.route !== undefined) return [match.route, ...(match.alsoReadAs ?? [])].map(({ id }) => id).join(' + ')
  return match.refusal === 'no-route' ? 'none' : `${match.refusal} ${match.public}`
}

const foundByForce = (routes: readonly RouteSpec[], method: string, path: string): string => {
  const { found } = findRoute(routes, method, path)
  if (found.kind === 'route') return [found.route, ...found.alsoReadAs].map(idOf).join(' + ')
  return found.kind === 'none' ? 'none' : `${found.kind} ${found.isPublic}`
}

const sorted = (found: string): string => {
  const [first, ...others] = found.split(' + ')
  return [first, ...others.sort()].join(' + ')
}

t.test('whatever routes there are and whatever path is asked, no habit of a backend leads past them', async t => {
  const random = createRandom(Number(process.env.WORLDS_SEED ?? 20_262))
  const folder = makeFolder(t, 'routes')
  let passed = 0
  for (let n = 0; n < TABLES; n++) {
    const routes = tableOf(random)
    writeFileSync(join(folder, 'routes.yaml'), fileOf(routes))
    const { table } = await loadRoutes(folder, ownRoutes())
    for (let left = REQUESTS; left > 0; left--) {
      const { method, host, path } = left % 2 === 0 ? requestOf(random) : requestFor(random, routes)
      const found = sorted(foundBy(table.match(method, path, host)))
      const expected = sorted(foundByForce(routesAt(routes, host), method, path))
      if (found !== expected) t.fail(`${method} ${host ?? ''}${path}: ${found}, not ${expected}`, { routes })
      if (found.startsWith('/')) passed++
    }
  }
  t.ok(passed > (TABLES * REQUESTS) / 12, `${passed} requests passed`)
})
