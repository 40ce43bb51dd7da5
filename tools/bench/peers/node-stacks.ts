// Starts stacks in Node on the gateway's core: @fastify/http-proxy bare, and the one most would write.
import { fileURLToPath } from 'node:url'
import { GATEWAY_CORE, startListening } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const startServer = (world: World, name: string, file: string, env: Readonly<Record<string, string>>) =>
  startListening(world, port => ({
    name,
    core: GATEWAY_CORE,
    command: process.execPath,
    args: [fileURLToPath(new URL(file, import.meta.url))],
    env: { ...env, PORT: `${port}` }
  }))

export const startHttpProxy = async (world: World): Promise<Peer> => {
  const name = '@fastify/http-proxy, no auth'
  const env = { UPSTREAM: `http://127.0.0.1:${world.upstream.openPort}` }
  return { name, checks: false, ...(await startServer(world, name, './http-proxy-server.ts', env)) }
}

export const startNaive = async (world: World): Promise<Peer> => {
  const name = 'naive: http-proxy + jose + rate-limit in Redis'
  const env = {
    UPSTREAM: `http://127.0.0.1:${world.upstream.checkedPort}`,
    JWT_SECRET: world.secret,
    REDIS_URL: await world.redisUrl()
  }
  return { name, checks: true, ...(await startServer(world, name, './naive-server.ts', env)) }
}
