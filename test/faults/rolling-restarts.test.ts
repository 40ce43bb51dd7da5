// Backends are restarted in turn, as in a deployment, and no client notices.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { createRollingBackends, rollBackends } from '../support/rolling-backends.ts'

const postgres = await startPostgres(t)

for (const scheme of ['http', 'https']) {
  t.test(`no request fails while ${scheme} backends are restarted in turn, whatever its method`, async t => {
    // RV-05
    const { backends, upstream } = await createRollingBackends(t, scheme === 'https' ? t.testdir() : undefined)
    const routes = [{ path: '/open/*', upstream: 'app', public: true }]
    const world = await startGateway(t, { postgres, config: { upstreams: { app: upstream }, routes } })
    const load = { requests: 600, perSecond: 200, betweenMs: 200 }
    const wrong = await rollBackends({ backends, url: `${world.url}/open/x`, ...load })
    const reasons = world.log
      .filter(({ msg, status }) => msg === 'request' && status !== 200)
      .map(({ reason, method }) => `${method} ${reason}`)
    t.same({ wrong, reasons }, { wrong: {}, reasons: [] })
  })
}
