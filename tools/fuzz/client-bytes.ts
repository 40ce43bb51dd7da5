// Sends mutated client bytes through a gateway, and checks every request that reaches the upstream.
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { startGateway, type World } from '../../test/support/gateway.ts'
import { identityFields, routeFault } from '../../test/support/oracles.ts'
import { connectRaw } from '../../test/support/raw-client.ts'
import { createRandom, type Fuzz, inLanes, mutate, readCorpus, splitBytes } from './mutate.ts'
import { type StrictRequest, startStrictUpstream } from './strict-upstream.ts'

/** No answer may hold any of these: they are words of libraries, hosts and files. */
export const LIBRARY_WORDS =
  /ECONN|EPIPE|ENOTFOUND|ETIMEDOUT|HPE_|ERR_|FST_|UND_ERR|node:|node_modules|\.ts:\d|\bat \w+ \(|llhttp|fastify|typeorm|ioredis|ldapts|QueryFailed|127\.0\.0\.1:\d/i

const routes = [
  { path: '/open/*', upstream: 'raw', public: true },
  { path: '/api/*', upstream: 'raw', roles: ['Agente'] },
  { path: '/api/admin/*', upstream: 'raw', roles: ['Admin'] },
  { path: '/live', upstream: 'raw', websocket: {} },
  { path: '/socket.io/*', upstream: 'raw', socketio: { namespaces: { '/': {} } } }
]

/** A gateway with short times, so that silence is soon over. */
export const startFuzzedGateway = (t: Pick<Test, 'teardown'>, url: string) =>
  startGateway(t, {
    config: { upstreams: { raw: { url, timeout: '300ms', idleTimeout: '300ms' } }, routes },
    env: { LOGIN_FAILURES_PER_IP: '1000000', LOG_LEVEL: 'error' },
    limits: { clientStallMs: 1000 }
  })

export const checkAlive = async (world: World, onFault: Fuzz['onFault']) => {
  const { status } = await world.fetch('/health')
  if (status !== 200) onFault(`health answers ${status}`, '')
}

export const LANES = 8
const ANSWER_MS = 8000

/** Sends the pieces, ends its side, and resolves with all that came back; undefined when the gateway never ended. */
const exchangeBytes = async (port: number, parts: readonly Buffer[]): Promise<string | undefined> => {
  const connection = await connectRaw(port)
  try {
    for (const part of parts) {
      connection.send(part)
      await turn()
    }
    connection.socket.end()
    return await connection.closed(ANSWER_MS)
  } catch {
    return undefined
  } finally {
    connection.destroy()
  }
}

const checkRequest = (request: StrictRequest, table: Parameters<typeof routeFault>[0]): string | undefined => {
  const identity = identityFields(request)
  const named = Object.keys(identity).length > 0
  if (named && (identity['x-user-id']?.join() !== '7' || identity['x-user-profiles']?.join() !== 'Agente'))
    return `forged identity ${JSON.stringify(identity)}`
  const path = request.target.split('?', 1)[0] ?? ''
  const own = table.match(request.method, path).route
  if (own === undefined || own.upstream === undefined) return `no rule covers ${request.target}`
  if (own.public !== true && own.socketio === undefined && !named) return `${request.target} went up without identity`
  return routeFault(table, own.id, request)
}

const checkAnswer = (received: string): string | undefined => {
  for (const [body] of received.matchAll(/\{"statusCode":\d+.*?"requestId":"[^"]*"[^}]*\}/g))
    if (LIBRARY_WORDS.test(body)) return `library words in ${body}`
  return /"code":"GW_INTERNAL"/.test(received) ? 'an internal error' : undefined
}

/** Runs until `goesOn` says no; returns how many messages were sent, and how many requests the upstream got. */
export const fuzzClientBytes = async (t: Pick<Test, 'teardown'>, options: Fuzz) => {
  const upstream = await startStrictUpstream(t)
  const world = await startFuzzedGateway(t, upstream.url)
  const random = createRandom(options.seed)
  const { table } = await loadRoutes(world.folder, ownRoutes())
  const token = await world.tokenFor({ id: 7, profiles: ['Agente'] })
  const corpus = readCorpus('request').map(text => text.replaceAll('{{TOKEN}}', token))
  let [done, forwarded] = [0, 0]
  const one = async () => {
    done++
    const text = mutate(corpus, random)
    const received = await exchangeBytes(world.port, splitBytes(Buffer.from(text, 'latin1'), random))
    const wrong = received === undefined ? 'the connection was never ended' : checkAnswer(received)
    if (wrong !== undefined) options.onFault(wrong, text)
    for (const request of upstream.takeRequests()) {
      forwarded++
      const fault = checkRequest(request, table)
      if (fault !== undefined) options.onFault(fault, request.head)
    }
    for (const fault of upstream.takeFaults()) options.onFault(`the upstream got no HTTP: ${fault}`, text)
  }
  await inLanes(LANES, () => options.goesOn(done), one)
  await checkAlive(world, options.onFault)
  if (upstream.open() > LANES) options.onFault(`${upstream.open()} connections are open`, '')
  return { done, forwarded }
}
