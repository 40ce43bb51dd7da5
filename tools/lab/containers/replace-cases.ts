// Cases in which each of two containers is replaced in turn under load: gateways behind nginx, and backends behind the gateways.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { stringify } from 'yaml'
import { freePort } from '../../../test/support/ports.ts'
import { recipeSettings } from '../../../test/support/recipe.ts'
import { succeeds, until } from '../../../test/support/until.ts'
import type { Case } from '../cases.ts'
import { plainSite } from '../proxies.ts'
import { ask, underRequests } from '../steady-requests.ts'
import type { Engine } from './engine.ts'
import { healthOf, IMAGE, withSecret } from './image-cases.ts'
import type { Stack } from './stack-cases.ts'

const NETWORK = 'replaced'
/** Addresses of the network that the lab makes. */
const SUBNET = '10.213.77.0/24'
const at = (host: number) => `10.213.77.${host}`
const BACKEND = join(import.meta.dirname, '../../../test/support/rolling-backend.ts')
const NGINX = `FROM debian:12.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends nginx-light && rm /etc/nginx/sites-enabled/default
CMD ["nginx", "-g", "daemon off;"]
`
/** What docs/routes.md says of a change of DNS. */
const FOLLOWED_MS = 15_000

const runBackend = ({ docker }: Engine, name: string, host: number) =>
  docker(
    ...['run', '--detach', '--init', '--name', name, '--network', NETWORK, '--ip', at(host)],
    ...['--network-alias', 'backend', '--volume', `${BACKEND}:/backend.ts:ro`],
    ...['--env', 'PORT=8080', '--env', 'HOST=0.0.0.0', 'node:24.21.0-alpine', 'node', '/backend.ts']
  )

const runGateway = async (engine: Engine, name: string, host: number) => {
  const settings = {
    DATABASE_URL: `postgres://portaria:sample@${at(10)}:5432/portaria`,
    REDIS_URL: `redis://${at(11)}:6379`,
    UPSTREAM_CONFIG: '/routes',
    TRUST_PROXY: at(12),
    RATE_LIMIT_MAX: '1000000',
    ...recipeSettings('front-nginx')
  }
  await engine.docker(
    ...['run', '--detach', '--init', '--read-only', '--name', name, '--network', NETWORK, '--ip', at(host)],
    ...['--volume', `${join(engine.folder, 'replaced/routes')}:/routes:ro`, ...withSecret],
    ...Object.entries(settings).flatMap(([setting, value]) => ['--env', `${setting}=${value}`]),
    IMAGE
  )
  await until(async () => (await healthOf(engine, name)) === 'healthy', `${name} is healthy`)
}

const remove = async ({ docker }: Engine, name: string) => {
  await docker('stop', '--time', '20', name)
  await docker('rm', name)
}

/** Stores, two backends, two gateways and nginx in one network. */
const startAll = async (engine: Engine, port: number, url: string) => {
  const { docker, folder } = engine
  const files = join(folder, 'replaced')
  mkdirSync(join(files, 'routes'), { recursive: true })
  const routes = [{ path: '/app/*', upstream: 'app', public: true }]
  writeFileSync(
    join(files, 'routes/app.yaml'),
    stringify({ upstreams: { app: { url: 'http://backend:8080' } }, routes })
  )
  writeFileSync(join(files, 'password'), 'sample')
  writeFileSync(join(files, 'site.conf'), plainSite('80', [`${at(21)}:3000`, `${at(22)}:3000`]))
  mkdirSync(join(files, 'nginx'), { recursive: true })
  writeFileSync(join(files, 'nginx/Dockerfile'), NGINX)
  await docker('build', '--network', 'host', '--tag', 'nginx', join(files, 'nginx'))
  await docker('network', 'create', '--subnet', SUBNET, NETWORK)
  const run = (name: string, host: number, ...words: string[]) =>
    docker('run', '--detach', '--name', name, '--network', NETWORK, '--ip', at(host), ...words)
  const database = ['POSTGRES_USER=portaria', 'POSTGRES_DB=portaria', 'POSTGRES_PASSWORD_FILE=/password']
  const set = database.flatMap(setting => ['--env', setting])
  await run('database', 10, '--volume', `${files}/password:/password:ro`, ...set, 'postgres:17.6-alpine')
  await run('counts', 11, 'redis:7.4-alpine', 'redis-server', '--protected-mode', 'no', '--bind', '0.0.0.0')
  const isReady = () => succeeds(docker('exec', 'database', 'pg_isready', '-h', at(10), '-d', 'portaria'))
  await until(isReady, 'the database is ready')
  await runBackend(engine, 'backend-1', 31)
  await runBackend(engine, 'backend-2', 32)
  await runGateway(engine, 'gateway-1', 21)
  await runGateway(engine, 'gateway-2', 22)
  const site = `${files}/site.conf:/etc/nginx/conf.d/site.conf:ro`
  await run('front', 12, '--publish', `127.0.0.1:${port}:80`, '--volume', site, 'nginx')
  await until(async () => (await ask(url)) === '200', 'nginx answers')
}

/** Otherwise the bridge would outlive the engine, and the next one's network would have the same addresses. */
const removeAll = async ({ docker }: Engine) => {
  const ids = await docker('ps', '--all', '--quiet', '--filter', `network=${NETWORK}`)
  for (const id of ids.split('\n').filter(Boolean)) await docker('rm', '--force', '--volumes', id)
  await docker('network', 'rm', NETWORK)
}

const replaceEach = async (engine: Engine) => {
  for (const [name, host] of [['gateway-1', 21] as const, ['gateway-2', 22] as const]) {
    await remove(engine, name)
    await runGateway(engine, name, host)
    await delay(1000)
  }
  for (const [name, host] of [['backend-1', 41] as const, ['backend-2', 42] as const]) {
    await remove(engine, name)
    await runBackend(engine, name, host)
    await delay(FOLLOWED_MS)
  }
}

// RV-118
export const replaceCases: readonly Case<Stack>[] = [
  {
    name: 'Each of two gateways and of two backends replaced in turn behind nginx, on container addresses',
    async run({ engine }) {
      const port = await freePort()
      const url = `http://127.0.0.1:${port}/app/x`
      try {
        await startAll(engine, port, url)
        return await underRequests(url, () => replaceEach(engine))
      } finally {
        await removeAll(engine)
      }
    }
  }
]
