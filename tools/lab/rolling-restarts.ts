// Restarts two instances behind nginx in turn, three seconds apart, under load, and counts every response.
import { equal, ok } from 'node:assert/strict'
import http from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'yaml'
import { TEST_SECRET } from '../../test/support/gateway.ts'
import { baseEnv, type GatewayProcess, routeFile, spawnGateway } from '../../test/support/gateway-process.ts'
import { freePort, listen } from '../../test/support/ports.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { recipeBlock, recipeSettings } from '../../test/support/recipe.ts'
import { startRedis } from '../../test/support/redis.ts'
import { nginxVersion, plainSite, startNginx } from './nginx.ts'
import type { Lab, System } from './system.ts'

const BETWEEN_MS = 3000
const RESTARTS = 4
const CLIENTS = 8

/** Sends GET and POST requests over persistent connections until stopped; counts responses by method and status. */
const startLoad = (port: number) => {
  const counts = new Map<string, number>()
  const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS })
  let isOver = false
  const ask = (method: string) =>
    new Promise<string>(resolve => {
      const request = http.request({ host: '127.0.0.1', port, path: '/app/x', method, agent })
      request.on('response', answer => answer.resume().on('end', () => resolve(String(answer.statusCode))))
      request.on('error', () => resolve('broken'))
      request.end(method === 'POST' ? 'a=b' : undefined)
    })
  const client = async (_: unknown, index: number) => {
    const method = index % 2 === 0 ? 'GET' : 'POST'
    while (!isOver) {
      const key = `${method} ${await ask(method)}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
      await delay(5)
    }
  }
  const clients = Promise.all(Array.from({ length: CLIENTS }, client))
  return async () => {
    isOver = true
    await clients
    agent.destroy()
    return counts
  }
}

const startInstances = async (lab: Lab, ports: readonly number[]) => {
  const [postgres, redis] = await Promise.all([startPostgres(lab), startRedis(lab)])
  const backend = http.createServer((request, response) => request.resume().on('end', () => response.end('ok')))
  const backendPort = await listen(lab, backend)
  const config = parse(recipeBlock('front-nginx', 'yaml', { '127.0.0.1:8080': `127.0.0.1:${backendPort}` })) as {
    routes: object[]
  }
  const routes = config.routes.map(route => ({ ...route, public: true }))
  const { folder } = routeFile(lab, { ...config, routes })
  const { DRAIN_DELAY = '' } = recipeSettings('front-nginx')
  ok(DRAIN_DELAY !== '', 'the recipe says a DRAIN_DELAY')
  return async (index: number): Promise<GatewayProcess> => {
    const gateway = spawnGateway(lab, {
      ...baseEnv(folder),
      JWT_SECRET: TEST_SECRET,
      PORT: String(ports[index]),
      DATABASE_URL: postgres.url,
      REDIS_URL: redis.url,
      TRUST_PROXY: '127.0.0.1',
      RATE_LIMIT_MAX: '1000000',
      LOG_LEVEL: 'warn',
      DRAIN_DELAY
    })
    await accepting(gateway, ports[index] ?? 0)
    return gateway
  }
}

const accepting = async (gateway: GatewayProcess, port: number): Promise<void> => {
  for (;;) {
    const isUp = await fetch(`http://127.0.0.1:${port}/health`).then(
      ({ ok }) => ok,
      () => false
    )
    if (isUp) return
    const isOver = await Promise.race([gateway.ended.then(() => true), delay(50, false)])
    if (isOver) throw new Error(`an instance ended: ${gateway.stdout()}${gateway.stderr()}`)
  }
}

/** The counts of one run; `change` alters the site of the recipe. */
const restartInTurn = async (lab: Lab, change: (site: string) => string): Promise<Map<string, number>> => {
  const ports = [await freePort(), await freePort()]
  const start = await startInstances(lab, ports)
  const instances = [await start(0), await start(1)]
  const port = await freePort()
  const site = plainSite(`127.0.0.1:${port}`, [`127.0.0.1:${ports[0]}`, `127.0.0.1:${ports[1]}`])
  await startNginx(lab, change(site), port)
  const stop = startLoad(port)
  for (let turn = 0; turn < RESTARTS; turn++) {
    const index = turn % 2
    instances[index]?.signal('SIGTERM')
    equal(await instances[index]?.ended, 0)
    instances[index] = await start(index)
    await delay(BETWEEN_MS)
  }
  return stop()
}

const allOf = (counts: Map<string, number>): number => [...counts.values()].reduce((sum, count) => sum + count, 0)

const failures = (counts: Map<string, number>): number =>
  [...counts].filter(([key]) => !key.endsWith(' 200')).reduce((sum, [, count]) => sum + count, 0)

export const rollingRestarts: System = {
  name: `rolling restarts behind nginx, ${BETWEEN_MS / 1000} s apart`,
  recipe: 'front-nginx',
  version: nginxVersion,
  async check(lab) {
    const counts = await restartInTurn(lab, site => site)
    equal(failures(counts), 0, JSON.stringify([...counts]))
    ok(allOf(counts) > 500)
    const byDefault = await restartInTurn(lab, site => site.replaceAll(' max_fails=0', ''))
    ok(failures(byDefault) > 0, 'the recipe says that nginx fails requests by its defaults')
    return [
      `${RESTARTS} restarts, ${allOf(counts)} requests, GET and POST: none failed`,
      `without \`max_fails=0\`: ${failures(byDefault)} of ${allOf(byDefault)} failed`
    ]
  }
}
