// Runs rolling restarts of backends behind a gateway process, with and without TLS: `npm run soak -- --rolling 8000`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { baseEnv, routeFile, spawnGateway } from '../../test/support/gateway-process.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { createRollingBackends, rollBackends } from '../../test/support/rolling-backends.ts'

const PER_SECOND = 200
const BETWEEN_MS = 2000

/** Returns the status to exit with: 1 if a request failed. */
export const runRolling = async (t: Pick<Test, 'teardown'>, requests: number): Promise<number> => {
  const folder = mkdtempSync(join(tmpdir(), 'portaria-rolling-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const postgres = await startPostgres(t)
  let failed = 0
  for (const scheme of ['http', 'https']) {
    const { backends, upstream } = await createRollingBackends(t, scheme === 'https' ? folder : undefined)
    const routes = routeFile(t, {
      upstreams: { app: upstream },
      routes: [{ path: '/open/*', upstream: 'app', public: true }]
    })
    const gateway = spawnGateway(t, { ...baseEnv(routes.folder), PORT: '0', DATABASE_URL: postgres.url })
    const { port } = await gateway.logged('listening')
    const load = { requests, perSecond: PER_SECOND, betweenMs: BETWEEN_MS }
    const { restarts, wrong } = await rollBackends({ backends, url: `http://127.0.0.1:${port}/open/x`, ...load })
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
