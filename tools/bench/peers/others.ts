// Starts other peers on the gateway's core: a relay in C, Caddy and @fastify/http-proxy, which check nothing, and the naive stack, which does.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import type { CertificateFiles } from '../../../test/support/certificates.ts'
import { makeFolder } from '../../../test/support/server-process.ts'
import { GATEWAY_CORE, startConfigured, startListening } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

/** Passes bytes between two sockets and reads no HTTP: the unit of other costs. Compiled by the system's C compiler. */
export const startRelay = async (world: World): Promise<Peer> => {
  const command = join(makeFolder(world, 'relay'), 'relay')
  execFileSync('cc', ['-O2', '-o', command, join(import.meta.dirname, 'relay.c')])
  const name = 'C relay with epoll, reads no HTTP'
  const started = await startListening(world, port => ({
    name,
    core: GATEWAY_CORE,
    command,
    args: [`${port}`, `${world.upstream.openPort}`]
  }))
  return { ...started, checks: false }
}

const caddyfile = (address: string, tls: string, upstreamPort: number): string => `
{
  admin off
  auto_https off
}
${address} {
  ${tls}
  reverse_proxy 127.0.0.1:${upstreamPort} {
    transport http {
      keepalive_idle_conns_per_host 128
    }
  }
}
`

/** @param certificate it speaks HTTP/2 over TLS with it */
export const startCaddy = async (world: World, certificate?: CertificateFiles): Promise<Peer> => {
  const [scheme, tls] =
    certificate === undefined ? ['http', ''] : ['https', `tls ${certificate.certFile} ${certificate.keyFile}`]
  const started = await startConfigured(world, {
    name: 'Caddy reverse_proxy, no auth',
    core: GATEWAY_CORE,
    command: 'caddy',
    config: port => caddyfile(`${scheme}://127.0.0.1:${port}`, tls, world.upstream.openPort),
    args: file => ['run', '--config', file, '--adapter', 'caddyfile']
  })
  return { ...started, checks: false }
}

/** A server in Node beside this file. */
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
