// Answers with mutated bytes as an upstream: every answer that a client gets must be its own, whole or visibly broken.
import net from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { listen } from '../../test/support/ports.ts'
import { connectRaw, type RawConnection, type RawResponse } from '../../test/support/raw-client.ts'
import { checkAlive, LANES, LIBRARY_WORDS, startFuzzedGateway } from './client-bytes.ts'
import { createRandom, type Fuzz, inLanes, mutate, type Random, readCorpus, splitBytes } from './mutate.ts'

/** Answers each request with a mutated response that carries the request's own tag (`/open/<tag>`). */
const startMutatingUpstream = async (t: Pick<Test, 'teardown'>, seed: number) => {
  const random = createRandom(seed)
  const corpus = readCorpus('response')
  const answers = new Map<string, string>()
  let open = 0
  const answer = async (socket: net.Socket, tag: string) => {
    const text = mutate(corpus, random).replaceAll('{{TAG}}', tag)
    const end = random.below(6)
    answers.set(tag, text)
    for (const part of splitBytes(Buffer.from(text, 'latin1'), random)) {
      socket.write(part)
      if (random.below(2) === 0) await turn()
    }
    if (end === 0) socket.end()
    if (end === 1) socket.resetAndDestroy()
  }
  const server = net.createServer(socket => {
    open++
    let pending = ''
    socket.on('data', chunk => {
      pending += chunk.toString('latin1')
      const tags = [...pending.matchAll(/^[A-Z]+ \/open\/(T\d+T) /gm)].map(([, tag]) => tag ?? '')
      if (!/\r\n\r\n/.test(pending)) return
      pending = ''
      for (const tag of tags) void answer(socket, tag)
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => open--)
  })
  return {
    url: `http://127.0.0.1:${await listen(t, server)}`,
    open: () => open,
    /** The bytes that were answered to the request with this tag. */
    answered: (tag: string) => answers.get(tag) ?? ''
  }
}

const METHODS = ['GET', 'GET', 'GET', 'HEAD', 'POST'] as const

const check = (response: RawResponse, tag: string): string | undefined => {
  const text = response.head + response.body
  for (const [found] of text.matchAll(/T\d+T/g)) if (found !== tag) return `the answer of ${found} went to ${tag}`
  if (response.status < 100 || response.status > 599 || Number.isNaN(response.status))
    return `status ${response.status}`
  if (response.headers['content-length'] !== undefined && response.headers['transfer-encoding'] !== undefined)
    return 'framed in two ways'
  if (!/"code":"GW_/.test(response.body)) return undefined
  if (/GW_INTERNAL/.test(response.body)) return 'an internal error'
  return LIBRARY_WORDS.test(response.body) ? `library words in ${response.body}` : undefined
}

const isLate = (error: unknown) => /waited too long/.test(String(error))

const ask = (method: string, tag: string, random: Random) => {
  const body = 'x'.repeat(random.below(3) === 0 ? 100_000 : 10)
  const framing = method === 'POST' ? `Content-Length: ${body.length}\r\n\r\n${body}` : '\r\n'
  return `${method} /open/${tag} HTTP/1.1\r\nHost: gw\r\n${framing}`
}

/** Runs until `goesOn` says no; returns how many requests were sent. */
export const fuzzUpstreamBytes = async (t: Pick<Test, 'teardown'>, options: Fuzz) => {
  const upstream = await startMutatingUpstream(t, options.seed)
  const world = await startFuzzedGateway(t, upstream.url)
  const random = createRandom(options.seed)
  let done = 0
  /** A stream of events may be silent for as long as it likes. */
  const isSilent = (tag: string) => /event-stream/i.test(upstream.answered(tag))
  /** Only what is not a stream is waited for as long as a busy machine may take. */
  const responseTo = async (connection: RawConnection, method: string, tag: string) => {
    const head = method === 'HEAD'
    try {
      return await connection.response({ head, timeoutMs: 6000 })
    } catch (error) {
      if (isLate(error) && !isSilent(tag)) return connection.response({ head, timeoutMs: 60_000 })
      throw error
    }
  }
  /** A connection with up to six requests, pipelined or one by one; ends at the first that is broken off. */
  const one = async () => {
    const connection = await connectRaw(world.port)
    const isPipelined = random.below(3) === 0
    const requests = Array.from({ length: 1 + random.below(6) }, () => ({
      method: random.pick(METHODS),
      tag: `T${done++}T`
    }))
    if (isPipelined) connection.send(requests.map(({ method, tag }) => ask(method, tag, random)).join(''))
    for (const { method, tag } of requests) {
      if (!isPipelined) connection.send(ask(method, tag, random))
      try {
        let response: RawResponse
        do response = await responseTo(connection, method, tag)
        while (response.status < 200)
        const fault = check(response, tag)
        if (fault !== undefined) options.onFault(fault, upstream.answered(tag))
        if (!response.complete || response.headers.connection === 'close') break
        if (random.below(20) === 0) break
      } catch (error) {
        if (isLate(error) && !isSilent(tag)) options.onFault(`${tag}: ${error}`, upstream.answered(tag))
        break
      }
    }
    connection.destroy()
  }
  await inLanes(LANES, () => options.goesOn(done), one)
  await checkAlive(world, options.onFault)
  // Connections rest a moment before another client's request may use them, so there are more of them than lanes.
  if (upstream.open() > 8 * LANES) options.onFault(`${upstream.open()} connections are open`, '')
  return done
}
