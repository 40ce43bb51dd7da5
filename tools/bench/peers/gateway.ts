// Portaria itself, as `npm start` runs it, listens on the gateway's core with the settings of one row.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CACHE_FOLDER } from '../../../gateway/values/package-files.ts'
import { freePort } from '../../../test/support/ports.ts'
import { makeFolder } from '../../../test/support/server-process.ts'
import { GATEWAY_CORE, startPinned } from '../processes.ts'
import type { World } from '../world.ts'
import { ask } from './peer.ts'

const main = fileURLToPath(new URL('../../../gateway/main.ts', import.meta.url))

interface GatewayStart {
  readonly name?: string
  /** Text of the one route file; by default {@link oneRoute} to the upstream that checks. */
  readonly routes?: string
  readonly counting?: 'redis' | 'memory'
  readonly env?: Readonly<Record<string, string>>
  /** What Node.js runs, with its arguments; by default the sources. */
  readonly entry?: readonly string[]
  /** By default, once GET /health answers 200. */
  readonly isReady?: (port: number) => Promise<boolean>
}

/** One upstream, one prefix for Admins: what every other peer is given too. */
export const oneRoute = (upstreamPort: number, url = `http://127.0.0.1:${upstreamPort}`): string => `
upstreams:
  app:
    url: ${url}
routes:
  - path: /api/*
    upstream: app
    roles: [Admin]
`

const isHealthy = (port: number): Promise<boolean> =>
  ask(port, '/health').then(
    answer => answer.status === 200,
    () => false
  )

export const startGateway = async (
  world: World,
  {
    name = 'Portaria',
    routes = oneRoute(world.upstream.checkedPort),
    counting = 'redis',
    env = {},
    entry = [main],
    isReady = isHealthy
  }: GatewayStart = {}
) => {
  const folder = makeFolder(world, 'gateway')
  const upstreamConfig = join(folder, 'upstream-config')
  mkdirSync(upstreamConfig)
  writeFileSync(join(upstreamConfig, 'routes.yaml'), routes)
  const port = await freePort()
  const stores = {
    DATABASE_URL: (await world.postgres()).url,
    ...(counting === 'redis' ? { REDIS_URL: await world.redisUrl() } : {})
  }
  const start = {
    name,
    core: GATEWAY_CORE,
    command: process.execPath,
    args: ['--max-semi-space-size=8', ...entry],
    cwd: folder,
    env: {
      // As `npm start` sets it.
      NODE_COMPILE_CACHE: CACHE_FOLDER,
      PORT: `${port}`,
      HOST: '127.0.0.1',
      // All clients of the bench come from one address.
      CONNECTIONS_PER_IP: '1000000',
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      JWT_SECRET: world.secret,
      ...stores,
      UPSTREAM_CONFIG: upstreamConfig,
      RATE_LIMIT_MAX: '1000000000',
      RATE_LIMIT_TTL_MS: '60000',
      LOG_LEVEL: 'silent',
      DRAIN_TIMEOUT: '1s',
      ...env
    }
  }
  const spawnedAt = performance.now()
  const running = await startPinned(world, start, () => isReady(port))
  /** `startedMs`: from the start of the process until it was ready. */
  return { ...running, port, checks: true, startedMs: performance.now() - spawnedAt }
}
