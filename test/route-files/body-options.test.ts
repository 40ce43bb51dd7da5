// Options for request bodies: what they may say, and what a change of them means.
import t from 'tap'
import { compareOptions } from '../../gateway/cli/compare-options.ts'
import { compareUpstreams } from '../../gateway/cli/compare-upstreams.ts'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import type { RouteTable } from '../../gateway/routes/route.ts'
import { complaintsOf, routeFolder, tableOf } from '../support/route-files.ts'
import { inUse, routeAt, upstreamAt } from '../support/routes.ts'

const fileWith = (upstream: string, route = ''): string =>
  `upstreams:\n  up: { url: "http://h"${upstream} }\nroutes: [{ path: /, upstream: up${route} }]\n`

t.test('64 KB are buffered unless an upstream says otherwise, and nothing on a streaming route', async t => {
  const bufferOf = async (written: string) => {
    const { upstreams } = await readRouteFiles(await routeFolder(t, { 'a.yaml': fileWith(written) }))
    return upstreams.get('up')?.requestBufferBytes
  }
  t.equal(await bufferOf(''), 65_536)
  t.equal(await bufferOf(', requestBuffer: 16MB'), 16 * 1024 * 1024)
  t.equal(await bufferOf(', requestBuffer: 1'), 1)
  const { routes } = await tableOf(t, '/a {streaming: true}', '/b')
  t.same(
    routes.filter(({ path }) => path.length === 2).map(({ streaming }) => streaming),
    [true, false]
  )
})

t.test('mistakes in these options are named, with their place', async t => {
  const mistakesIn = (upstream: string, route?: string) => complaintsOf(t, { 'a.yaml': fileWith(upstream, route) })
  t.match(await mistakesIn(', requestBuffer: 17MB'), [/^a\.yaml:2:\d+: "requestBuffer" must be at most 16MB$/])
  t.match(await mistakesIn(', requestBuffer: 0'), [/"requestBuffer" must be a size such as/])
  t.match(await mistakesIn(', proxyRequestBuffering: 1KB'), [/did you mean "requestBuffer"/])
  t.match(await mistakesIn('', ', socketio: { namespaces: { /: {} } }, streaming: true'), [
    /"streaming" has no effect|so "streaming"/
  ])
  t.match(await complaintsOf(t, { 'a.yaml': 'routes: [{ path: /, external: true, streaming: true }]\n' }), [
    /"streaming" has no effect on an external route/
  ])
})

t.test('diff lists them; a route that begins to stream is looser', async t => {
  const upstream = upstreamAt(1)
  const tableWith = (requestBufferBytes: number) => inUse({ ...upstream, requestBufferBytes }) as unknown as RouteTable
  t.match(compareUpstreams(tableWith(1), tableWith(2)), [
    { text: 'upstream backend: requestBuffer 1 → 2', looser: false }
  ])
  const [plain, streaming] = [routeAt('/a', upstream), routeAt('/a', upstream, { streaming: true })]
  t.match(compareOptions(plain, streaming), [{ text: /streaming false → true/, looser: true }])
  t.match(compareOptions(streaming, plain), [{ text: /streaming true → false/, looser: false }])
})
