// Restarts two graceful backends in turn, behind a gateway that forwards mixed requests to them, and counts what clients see.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { createCertificateAuthority } from './certificates.ts'
import { freePort } from './ports.ts'
import { until } from './until.ts'

/** So many requests show that the gateway has taken a backend back. */
const IN_USE = 5
/** Requests at a time. */
const LANES = 8
const ENTRY = join(import.meta.dirname, 'rolling-backend.ts')

type Teardown = Pick<Test, 'teardown'>

interface RollingBackend {
  readonly url: string
  start(): Promise<void>
  /** Requests since its last start. */
  served(): number
  /** Resolves when it has finished its requests and is gone. */
  stop(): Promise<void>
}

const createBackend = async (t: Teardown, env: Record<string, string>): Promise<RollingBackend> => {
  const port = await freePort()
  let child: ChildProcess | undefined
  let served = 0
  t.teardown(() => child?.kill('SIGKILL'))
  return {
    url: `${env.KEY_FILE === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    async start() {
      child = spawn(process.execPath, [ENTRY], {
        env: { ...env, PORT: String(port) },
        stdio: ['ignore', 'ignore', 'inherit', 'ipc']
      })
      await once(child, 'message')
      served = 0
      child.on('message', () => served++)
    },
    served: () => served,
    async stop() {
      if (child === undefined) return
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      await gone
    }
  }
}

/** Method, body and whether it is sent in chunks. */
const REQUESTS: readonly (readonly [method: string, body: Buffer, isChunked: boolean])[] = [
  ['GET', Buffer.alloc(0), false],
  ['POST', Buffer.from('hello'), false],
  ['PUT', Buffer.alloc(5000, 'x'), false],
  ['POST', Buffer.alloc(0), false],
  ['GET', Buffer.alloc(0), false],
  ['POST', Buffer.alloc(3000, 'y'), true],
  ['PUT', Buffer.from('hello'), true],
  ['DELETE', Buffer.alloc(0), false]
]

const ask = (url: string, agent: http.Agent, [method, body, isChunked]: (typeof REQUESTS)[number]) =>
  new Promise<string>(resolve => {
    const name = `${method} ${body.length}${isChunked ? ' in chunks' : ''}`
    const request = http.request(url, { agent, method }, async response => {
      const text = (await response.setEncoding('utf8').toArray()).join('')
      const isRight = response.statusCode === 200 && text === `${method} ${body.length}`
      resolve(isRight ? 'right' : `${name}: ${response.statusCode}`)
    })
    request.on('error', error => resolve(`${name}: ${error.message}`))
    if (!isChunked && body.length > 0) request.setHeader('content-length', body.length)
    if (isChunked) request.write(body.subarray(0, 2))
    request.end(isChunked ? body.subarray(2) : body)
  })

/** @param folder for the certificate of backends with TLS; undefined: without */
export const createRollingBackends = async (t: Teardown, folder?: string) => {
  const authority = folder === undefined ? undefined : createCertificateAuthority(folder)
  const issued = authority?.issue('backend')
  const env = issued === undefined ? {} : { KEY_FILE: issued.keyFile, CERT_FILE: issued.certFile }
  const backends = [await createBackend(t, env), await createBackend(t, env)]
  await Promise.all(backends.map(backend => backend.start()))
  return {
    backends,
    /** As in a route file. */
    upstream: {
      targets: backends.map(({ url }) => url),
      ...(authority === undefined ? {} : { caFile: authority.caFile })
    }
  }
}

interface Rolling {
  readonly backends: readonly RollingBackend[]
  /** Where the gateway forwards to them. */
  readonly url: string
  /** At least. */
  readonly requests: number
  /** At most. */
  readonly perSecond: number
  readonly betweenMs: number
}

/** Restarts the backends in turn, each at least once, until all requests have been answered; what was wrong how often. */
export const rollBackends = async ({ backends, url, requests, perSecond, betweenMs }: Rolling) => {
  const agent = new http.Agent({ keepAlive: true })
  const wrong = new Map<string, number>()
  let restarts = 0
  let isOver = false
  const restart = async () => {
    for (let at = 0; !isOver; at++) {
      await delay(betweenMs)
      if (isOver) return
      const backend = backends[at % backends.length]
      await backend?.stop()
      await backend?.start()
      restarts++
      // As a deployment waits for readiness: the other must not go before this one is in use again.
      await until(() => isOver || (backend?.served() ?? 0) >= IN_USE)
    }
  }
  const restarting = restart()
  let sent = 0
  // Each sends when it has its response: after a stall of the machine no burst fills the queue of a backend that closes.
  const lane = async () => {
    while (sent < requests || restarts < backends.length) {
      const request = REQUESTS[sent++ % REQUESTS.length]
      if (request === undefined) return
      const outcome = await ask(url, agent, request)
      if (outcome !== 'right') wrong.set(outcome, (wrong.get(outcome) ?? 0) + 1)
      await delay((LANES * 1000) / perSecond)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  isOver = true
  await restarting
  agent.destroy()
  return Object.fromEntries(wrong)
}
