// Backends are restarted in turn, as in a deployment, and no client notices.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { createRollingBackends, rollBackends } from '../support/rolling-backends.ts'

const postgres = await startPostgres(t)

t.test('a target that refuses connections costs no request, with a body or without', async t => {
  // RV-05
  const living = await startRawUpstream(t)
  living.respond(() => OK)
  const requests: readonly (readonly [method: string, body: string | undefined])[] = [
    ['GET', undefined],
    ['POST', 'hello'],
    ['PUT', 'x'.repeat(200_000)],
    ['POST', '']
  ]
  for (const [method, body] of requests) {
    const targets = [`http://127.0.0.1:${await freePort()}`, living.url]
    const routes = [{ path: '/open/*', upstream: 'app', public: true }]
    // In a gateway of its own, whose targets are all taken to be up.
    const world = await startGateway(t, { postgres, config: { upstreams: { app: { targets } }, routes } })
    for (let n = 0; n < 2; n++) {
      const answer = await world.fetch('/open/x', { method, ...(body === undefined ? {} : { body }) })
      t.same([answer.status, await answer.text()], [200, 'ok'], `${method} ${body?.length}`)
    }
    t.equal(world.log.filter(({ msg }) => msg === 'an upstream target is down').length, 1)
    t.equal(living.requests.at(-1)?.body.length, body?.length ?? 0)
  }
})

for (const scheme of ['http', 'https']) {
  t.test(`no request fails while ${scheme} backends are restarted in turn, whatever its method`, async t => {
    // RV-05
    const { backends, upstream } = await createRollingBackends(t, scheme === 'https' ? t.testdir() : undefined)
    const routes = [{ path: '/open/*', upstream: 'app', public: true }]
    const world = await startGateway(t, { postgres, config: { upstreams: { app: upstream }, routes } })
    const load = { requests: 600, perSecond: 200, betweenMs: 200 }
    const { wrong } = await rollBackends({ backends, url: `${world.url}/open/x`, ...load })
    const reasons = world.log
      .filter(({ msg, status }) => msg === 'request' && status !== 200)
      .map(({ reason, method }) => `${method} ${reason}`)
    t.same({ wrong, reasons }, { wrong: {}, reasons: [] })
  })
}
