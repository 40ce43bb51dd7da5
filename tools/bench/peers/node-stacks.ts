// Starts stacks in Node on the gateway's core: @fastify/http-proxy bare, and the one most would write.
import { join } from 'node:path'
import { GATEWAY_CORE, startListening } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const startServer = (world: World, name: string, file: string, env: Readonly<Record<string, string>>) =>
  startListening(world, port => ({
    name,
    core: GATEWAY_CORE,
    command: process.execPath,
    args: [join(import.meta.dirname, file)],
    env: { ...env, PORT: `${port}` }
  }))

export const startHttpProxy = async (world: World): Promise<Peer> => {
  const env = { UPSTREAM: `http://127.0.0.1:${world.upstream.openPort}` }
  const started = await startServer(world, '@fastify/http-proxy, no auth', 'http-proxy-server.ts', env)
  return { ...started, checks: false }
}

export const startNaive = async (world: World): Promise<Peer> => {
  const env = {
    UPSTREAM: `http://127.0.0.1:${world.upstream.checkedPort}`,
    JWT_SECRET: world.secret,
    REDIS_URL: await world.redisUrl()
  }
  const started = await startServer(world, 'naive: http-proxy + jose + rate-limit in Redis', 'naive-server.ts', env)
  return { ...started, checks: true }
}
