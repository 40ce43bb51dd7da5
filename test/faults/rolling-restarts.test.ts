// Two graceful backends are restarted in turn, as in a deployment, under requests of all kinds, and no client notices.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { startGateway } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const REQUESTS = 600
const PER_SECOND = 200
const BETWEEN_MS = 200
/** Requests at a time. */
const LANES = 8
/** So many requests show that the gateway has taken a backend back. */
const IN_USE = 5
const ENTRY = join(import.meta.dirname, '../support/rolling-backend.ts')

const startBackend = async (t: Test, env: Record<string, string>) => {
  const port = await freePort()
  let child: ChildProcess
  let served = 0
  const start = async () => {
    const stdio = ['ignore', 'ignore', 'inherit', 'ipc'] as const
    child = spawn(process.execPath, [ENTRY], { env: { ...env, PORT: String(port) }, stdio: [...stdio] })
    await once(child, 'message')
    served = 0
    child.on('message', message => {
      if (message === 'served') served++
    })
  }
  t.teardown(() => child.kill('SIGKILL'))
  await start()
  return {
    url: `${env.KEY_FILE === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    /** Requests since its last start. */
    served: () => served,
    /** Resolves when it refuses connections; it goes on with those that it has. */
    async end() {
      const closed = Promise.withResolvers<void>()
      child.on('message', message => {
        if (message === 'closed') closed.resolve()
      })
      child.kill('SIGTERM')
      await closed.promise
    },
    /** Begins anew when its last connection is closed. */
    async beginAnew() {
      if (child.exitCode === null) await once(child, 'exit')
      await start()
    }
  }
}

/** Method, body and whether it is sent in chunks. */
const KINDS: readonly (readonly [method: string, body: Buffer, isChunked: boolean])[] = [
  ['GET', Buffer.alloc(0), false],
  ['POST', Buffer.from('hello'), false],
  ['PUT', Buffer.alloc(5000, 'x'), false],
  ['POST', Buffer.alloc(0), false],
  ['GET', Buffer.alloc(0), false],
  ['POST', Buffer.alloc(3000, 'y'), true],
  ['PUT', Buffer.from('hello'), true],
  ['DELETE', Buffer.alloc(0), false]
]

/** What went wrong; '': nothing. */
const ask = (url: string, agent: http.Agent, [method, body, isChunked]: (typeof KINDS)[number]) =>
  new Promise<string>(resolve => {
    const name = `${method} ${body.length}${isChunked ? ' in chunks' : ''}`
    const request = http.request(url, { agent, method }, async response => {
      const text = (await response.setEncoding('utf8').toArray()).join('')
      const isRight = response.statusCode === 200 && text === `${method} ${body.length}`
      resolve(isRight ? '' : `${name}: ${response.statusCode}`)
    })
    request.on('error', error => resolve(`${name}: ${error.message}`))
    if (!isChunked && body.length > 0) request.setHeader('content-length', body.length)
    if (isChunked) request.write(body.subarray(0, 2))
    request.end(isChunked ? body.subarray(2) : body)
  })

/** Restarts the backends in turn, each at least once, until all requests have been answered; what was wrong. */
const roll = async (backends: readonly Awaited<ReturnType<typeof startBackend>>[], url: string): Promise<string[]> => {
  const agent = new http.Agent({ keepAlive: true })
  const wrong: string[] = []
  let [restarts, sent, asking, isOver] = [0, 0, 0, false]
  let paused: Promise<void> | undefined
  const restart = async () => {
    for (;;) {
      await delay(BETWEEN_MS)
      const backend = backends[restarts % backends.length]
      if (isOver || backend === undefined) return
      // Connections that a backend has not accepted when it closes are reset by the kernel: none is made at that moment.
      const pause = Promise.withResolvers<void>()
      paused = pause.promise
      await until(() => asking === 0)
      await backend.end()
      paused = undefined
      pause.resolve()
      await backend.beginAnew()
      restarts++
      // As a deployment waits for readiness: the other must not go before this one is in use again.
      await until(() => isOver || backend.served() >= IN_USE)
    }
  }
  // Each sends when it has its response, so that a stall of the machine makes no burst.
  const lane = async () => {
    while (sent < REQUESTS || restarts < backends.length) {
      await paused
      const kind = KINDS[sent++ % KINDS.length]
      asking++
      if (kind !== undefined) wrong.push(await ask(url, agent, kind))
      asking--
      await delay((LANES * 1000) / PER_SECOND)
    }
  }
  const restarting = restart()
  await Promise.all(Array.from({ length: LANES }, lane))
  isOver = true
  await restarting
  agent.destroy()
  return wrong.filter(Boolean)
}

const postgres = await startPostgres(t)

for (const scheme of ['http', 'https']) {
  t.test(`no request fails while ${scheme} backends are restarted in turn, whatever its method`, async t => {
    // RV-05
    const authority = createCertificateAuthority(t.testdir({}))
    const { keyFile, certFile } = authority.issue('backend')
    const env = scheme === 'https' ? { KEY_FILE: keyFile, CERT_FILE: certFile } : {}
    const backends = [await startBackend(t, env), await startBackend(t, env)]
    const targets = backends.map(({ url }) => url)
    const upstreams = { app: { targets, ...(scheme === 'https' ? { caFile: authority.caFile } : {}) } }
    const routes = [{ path: '/open/*', upstream: 'app', public: true }]
    const world = await startGateway(t, { postgres, config: { upstreams, routes } })
    const wrong = await roll(backends, `${world.url}/open/x`)
    const reasons = world.log
      .filter(({ msg, status }) => msg === 'request' && status !== 200)
      .map(({ reason, method }) => `${method} ${reason}`)
    t.same({ wrong, reasons }, { wrong: [], reasons: [] })
  })
}
