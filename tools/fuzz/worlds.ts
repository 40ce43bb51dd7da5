// A gateway stands between a fuzzer and its upstream, with short times so that silence is soon over.
import type { Test } from 'tap'
import { startGateway } from '../../test/support/gateway.ts'
import { startStrictUpstream } from './strict-upstream.ts'
import { startMutatingUpstream } from './upstream-bytes.ts'

const routes = [
  { path: '/open/*', upstream: 'raw', public: true },
  { path: '/api/*', upstream: 'raw', roles: ['Agente'] },
  { path: '/api/admin/*', upstream: 'raw', roles: ['Admin'] },
  { path: '/live', upstream: 'raw', websocket: {} },
  { path: '/socket.io/*', upstream: 'raw', socketio: { namespaces: { '/': {} } } }
]

const worldOf = (t: Pick<Test, 'teardown'>, url: string) =>
  startGateway(t, {
    config: { upstreams: { raw: { url, timeout: '300ms', idleTimeout: '300ms' } }, routes },
    env: { LOGIN_FAILURES_PER_IP: '1000000', LOG_LEVEL: 'error' },
    limits: { clientStallMs: 1000 }
  })

export const startClientFuzz = async (t: Pick<Test, 'teardown'>) => {
  const upstream = await startStrictUpstream(t)
  return { world: await worldOf(t, upstream.url), upstream }
}

export const startUpstreamFuzz = async (t: Pick<Test, 'teardown'>, seed: number) => {
  const upstream = await startMutatingUpstream(t, seed)
  return { world: await worldOf(t, upstream.url), upstream }
}
