// Runs rolling restarts of backends behind a gateway process, with and without TLS: `npm run soak -- --rolling 8000`.
import type { Test } from 'tap'
import { routeFile, startGatewayProcess } from '../../test/support/gateway-process.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { createRollingBackends, rollBackends } from '../../test/support/rolling-backends.ts'
import { makeFolder } from '../../test/support/server-process.ts'

const PER_SECOND = 200
const BETWEEN_MS = 2000

/** Returns the status to exit with: 1 if a request failed. */
export const runRolling = async (t: Pick<Test, 'teardown'>, requests: number): Promise<number> => {
  const folder = makeFolder(t, 'rolling')
  const postgres = await startPostgres(t)
  let failed = 0
  for (const scheme of ['http', 'https']) {
    const { backends, upstream } = await createRollingBackends(t, scheme === 'https' ? folder : undefined)
    const routes = routeFile(t, {
      upstreams: { app: upstream },
      routes: [{ path: '/open/*', upstream: 'app', public: true }]
    })
    const gateway = await startGatewayProcess(t, routes.folder, { DATABASE_URL: postgres.url })
    const load = { requests, perSecond: PER_SECOND, betweenMs: BETWEEN_MS }
    const { restarts, wrong } = await rollBackends({
      backends,
      url: `http://127.0.0.1:${gateway.port}/open/x`,
      ...load
    })
    const wrongCount = Object.values(wrong).reduce((sum, times) => sum + times, 0)
    failed += wrongCount
    console.log(`${scheme} backends: ${requests} requests, ${restarts} restarts, ${wrongCount} failed`)
    for (const [what, times] of Object.entries(wrong)) console.log(`  ${times} × ${what}`)
    for (const { msg, status, reason, causes } of gateway.lines())
      if (msg === 'request' && status !== 200) console.log(`  ${reason}: ${causes}`)
    gateway.signal('SIGTERM')
    await gateway.ended
  }
  return failed === 0 ? 0 : 1
}
