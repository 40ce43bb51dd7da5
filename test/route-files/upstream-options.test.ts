// Options for targets: what they may say, and what a change of them means.
import t, { type Test } from 'tap'
import { compareUpstreams } from '../../gateway/cli/compare-upstreams.ts'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import type { RouteTable } from '../../gateway/routes/route.ts'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import { complaintsOf, routeFolder } from '../support/route-files.ts'
import { inUse, upstreamAt } from '../support/routes.ts'

const fileWith = (upstream: string): string => `upstreams:\n  up: ${upstream}\nroutes: [{ path: /, upstream: up }]\n`

const upstreamFrom = async (t: Test, written: string): Promise<Upstream> => {
  const { upstreams, complaints } = await readRouteFiles(await routeFolder(t, { 'a.yaml': fileWith(written) }))
  const upstream = upstreams.get('up')
  if (upstream === undefined) throw new Error(JSON.stringify(complaints))
  return upstream
}

t.test('without options a target rests for 10 s after five errors; nothing else is limited or checked', async t => {
  t.match(await upstreamFrom(t, '{ url: "http://h" }'), {
    healthCheck: undefined,
    outlier: { errors: 5, restMs: 10_000 },
    maxConnections: undefined,
    queue: undefined
  })
  t.match(await upstreamFrom(t, '{ url: "http://h", maxConnections: 4, healthCheck: { path: / } }'), {
    maxConnections: 4,
    queue: { max: 1024, timeoutMs: 10_000 },
    healthCheck: {
      path: '/',
      intervalMs: 10_000,
      timeoutMs: 5000,
      status: { from: 200, to: 399 },
      host: undefined,
      rise: 1,
      fall: 2
    }
  })
})

t.test('mistakes in these options are named, with their place', async t => {
  const mistakes: Readonly<Record<string, string>> = {
    '{ targets: ["http://a", { url: "http://a/", backup: true }] }': 'a.yaml:2:38: this address is listed twice',
    '{ targets: ["http://a", "http://a"] }': 'a.yaml:2:31: this address is listed twice',
    '{ targets: [{ url: "http://a", backup: true }] }':
      'a.yaml:2:18: all targets are backups: at least one must not be',
    '{ targets: [{ backup: true }] }': 'a.yaml:2:19: an address, or a map with url and backup needs the key "url"',
    '{ targets: [{ url: "ftp://a" }] }':
      'a.yaml:2:26: the address must begin with http://, https:// or unix:, not with ftp:',
    '{ targets: [{ url: "http://a", weight: 2 }] }': 'a.yaml:2:38: unknown key "weight"; allowed here: url, backup',
    '{ url: "http://h", queue: { max: 5 } }':
      'a.yaml:2:33: "queue" needs "maxConnections": without it no request waits',
    '{ url: "http://h", maxConnections: 0 }': 'a.yaml:2:42: "maxConnections" must be a whole number from 1, not 0',
    '{ url: "http://h", healthCheck: { path: /, status: 399-200 } }':
      'a.yaml:2:58: "status" must begin with the lower status; write 200-399',
    '{ url: "http://h", healthCheck: { path: /, status: 2xx } }':
      'a.yaml:2:58: "status" must be a status such as 200, or a range such as 200-299; write 200-299 instead of "2xx"',
    '{ url: "http://h", healthCheck: { path: /, host: "http://h" } }':
      'a.yaml:2:56: "host" must be a host such as app.example.org or app.example.org:8080',
    '{ url: "http://h", healthCheck: { path: /, rise: 0 } }':
      'a.yaml:2:56: "rise" must be a whole number from 1, not 0',
    '{ url: "http://h", healthCheck: { path: /, passes: 2 } }':
      'a.yaml:2:50: unknown key "passes" (did you mean "rise"?); allowed here: path, interval, timeout, status, host, rise, fall',
    '{ url: "http://h", outlier: { errors: -1 } }': 'a.yaml:2:45: "errors" must be a whole number from 0, not -1',
    '{ url: "http://h", outlier: { for: 30d } }': 'a.yaml:2:42: "for" must be at most 24d',
    '{ url: "http://h", maxConns: 5 }':
      'a.yaml:2:26: unknown key "maxConns" (did you mean "maxConnections"?); allowed here: '
  }
  for (const [written, expected] of Object.entries(mistakes)) {
    const found = await complaintsOf(t, { 'a.yaml': fileWith(written) })
    t.same([found.length, found[0]?.slice(0, expected.length)], [1, expected], written)
  }
})

t.test('diff lists each of these options; a limit of connections that is raised or removed is looser', async t => {
  const before = upstreamAt(1, 2)
  const tableOf = (changed: Partial<Upstream>) => inUse({ ...before, ...changed }) as unknown as RouteTable
  const notesOn = (was: Partial<Upstream>, now: Partial<Upstream>) =>
    compareUpstreams(tableOf(was), tableOf(now)).map(({ text, looser }) => [text, looser])
  const [first, second] = before.targets
  if (first === undefined || second === undefined) throw new Error('two targets')
  t.same(notesOn({}, { targets: [first, { ...second, backup: true }] }), [
    [
      'upstream backend: targets http://127.0.0.1:1, http://127.0.0.1:2 → http://127.0.0.1:1, http://127.0.0.1:2 (backup)',
      false
    ]
  ])
  const limited = { maxConnections: 4, queue: { max: 9, timeoutMs: 100 } }
  t.same(notesOn({}, limited), [
    ['upstream backend: maxConnections none → 4', false],
    ['upstream backend: queue none → 9 requests, for 100 ms', false]
  ])
  t.same(notesOn(limited, { ...limited, maxConnections: 5 }), [['upstream backend: maxConnections 4 → 5', true]])
  t.same(notesOn(limited, { ...limited, maxConnections: 3 }), [['upstream backend: maxConnections 4 → 3', false]])
  t.same(notesOn(limited, { queue: limited.queue }), [['upstream backend: maxConnections 4 → none', true]])
  t.same(notesOn({}, { outlier: { errors: 0, restMs: 1 } }), [
    ['upstream backend: outlier 5 errors in a row, for 10000 ms → none', false]
  ])
  const healthCheck = {
    path: '/up',
    intervalMs: 1,
    timeoutMs: 2,
    status: { from: 200, to: 204 },
    host: 'h.example',
    rise: 3,
    fall: 4
  }
  t.same(notesOn({}, { healthCheck }), [
    ['upstream backend: healthCheck none → /up at h.example every 1 ms, 200-204 within 2 ms, rise 3, fall 4', false]
  ])
})
