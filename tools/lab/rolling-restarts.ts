// Restarts two instances behind nginx in turn, three seconds apart, under load, and counts every response.
import { equal, ok } from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'yaml'
import { routeFile, startBackend, startGatewayProcess } from '../../test/support/gateway-process.ts'
import { startNginx } from '../../test/support/nginx.ts'
import { freePort } from '../../test/support/ports.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { recipeBlock, recipeSettings } from '../../test/support/recipe.ts'
import { startRedis } from '../../test/support/redis.ts'
import { nginxVersion, plainSite } from './proxies.ts'
import { sendDuring } from './steady-requests.ts'
import type { Lab, System } from './system.ts'

const BETWEEN_MS = 3000
const RESTARTS = 4

const startInstances = async (lab: Lab, ports: readonly number[]) => {
  const [postgres, redis] = await Promise.all([startPostgres(lab), startRedis(lab)])
  const backend = new URL((await startBackend(lab)).url).host
  const config = parse(recipeBlock('front-nginx', 'yaml', { '127.0.0.1:8080': backend })) as { routes: object[] }
  const routes = config.routes.map(route => ({ ...route, public: true }))
  const { folder } = routeFile(lab, { ...config, routes })
  const { DRAIN_DELAY = '' } = recipeSettings('front-nginx')
  ok(DRAIN_DELAY !== '', 'the recipe says a DRAIN_DELAY')
  return (index: number) =>
    startGatewayProcess(lab, folder, {
      PORT: String(ports[index]),
      DATABASE_URL: postgres.url,
      REDIS_URL: redis.url,
      TRUST_PROXY: '127.0.0.1',
      DRAIN_DELAY
    })
}

/** What became of the requests meanwhile; `change` alters the site of the recipe. */
const restartInTurn = async (lab: Lab, change: (site: string) => string) => {
  const ports = [await freePort(), await freePort()]
  const start = await startInstances(lab, ports)
  const instances = [await start(0), await start(1)]
  const port = await freePort()
  const site = plainSite(`127.0.0.1:${port}`, [`127.0.0.1:${ports[0]}`, `127.0.0.1:${ports[1]}`])
  await startNginx(lab, () => change(site), port)
  return sendDuring(`http://127.0.0.1:${port}/app/x`, async () => {
    for (let turn = 0; turn < RESTARTS; turn++) {
      const index = turn % 2
      instances[index]?.signal('SIGTERM')
      equal(await instances[index]?.ended, 0)
      instances[index] = await start(index)
      await delay(BETWEEN_MS)
    }
  })
}

export const rollingRestarts: System = {
  name: `rolling restarts behind nginx, ${BETWEEN_MS / 1000} s apart`,
  recipe: 'front-nginx',
  version: nginxVersion,
  async check(lab) {
    const { sent, failed } = await restartInTurn(lab, site => site)
    equal(failed.length, 0, failed.join())
    ok(sent > 500)
    const byDefault = await restartInTurn(lab, site => site.replaceAll(' max_fails=0', ''))
    ok(byDefault.failed.length > 0, 'the recipe says that nginx fails requests by its defaults')
    return [
      `${RESTARTS} restarts, ${sent} requests, GET and POST: none failed`,
      `without \`max_fails=0\`: ${byDefault.failed.length} of ${byDefault.sent} failed`
    ]
  }
}
