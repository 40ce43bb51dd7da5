// Mutated client bytes have been sent through a gateway, and every request that reached the upstream has been checked.
import net from 'node:net'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import type { World } from '../../test/support/gateway.ts'
import { identityFields, routeFault } from '../../test/support/oracles.ts'
import { createRandom, type Fuzz, mutate, pieces, readCorpus } from './mutate.ts'
import type { StrictRequest, StrictUpstream } from './strict-upstream.ts'

/** No answer may hold any of these: they are words of libraries, hosts and files. */
export const LIBRARY_WORDS =
  /ECONN|EPIPE|ENOTFOUND|ETIMEDOUT|HPE_|ERR_|FST_|UND_ERR|node:|node_modules|\.ts:\d|\bat \w+ \(|llhttp|fastify|typeorm|ioredis|ldapts|QueryFailed|127\.0\.0\.1:\d/i

const ANSWER_MS = 8000

/** Sends the pieces, ends its side, and resolves with all that came back; undefined when the gateway never ended. */
export const exchangeBytes = (port: number, parts: readonly string[]): Promise<string | undefined> =>
  new Promise(resolve => {
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    let received = ''
    const finish = (result: string | undefined) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(result)
    }
    const timer = setTimeout(() => finish(undefined), ANSWER_MS)
    socket.on('data', chunk => {
      received += chunk.toString('latin1')
    })
    socket.on('end', () => finish(received))
    socket.on('error', () => finish(received))
    socket.on('close', () => finish(received))
    socket.on('connect', async () => {
      for (const part of parts) {
        socket.write(Buffer.from(part, 'latin1'))
        await new Promise(done => setImmediate(done))
      }
      socket.end()
    })
  })

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
export const fuzzClientBytes = async (
  world: World,
  upstream: StrictUpstream,
  options: Fuzz
): Promise<{ done: number; forwarded: number }> => {
  const random = createRandom(options.seed)
  const { table } = await loadRoutes(world.folder, ownRoutes())
  const token = await world.tokenFor({ id: 7, profiles: ['Agente'] })
  const corpus = readCorpus('request').map(text => text.replaceAll('{{TOKEN}}', token))
  let done = 0
  let forwarded = 0
  const one = async () => {
    const text = mutate(corpus, random)
    const received = await exchangeBytes(world.port, pieces(text, random))
    if (received === undefined) options.onFault('the connection was never ended', text)
    else {
      const fault = checkAnswer(received)
      if (fault !== undefined) options.onFault(fault, text)
    }
    for (const request of upstream.takeRequests()) {
      forwarded++
      const fault = checkRequest(request, table)
      if (fault !== undefined) options.onFault(fault, request.head)
    }
    for (const fault of upstream.takeFaults()) options.onFault(`the upstream got no HTTP: ${fault}`, text)
  }
  const lane = async () => {
    while (options.goesOn(done)) {
      done++
      await one()
    }
  }
  await Promise.all(Array.from({ length: 8 }, lane))
  return { done, forwarded }
}
