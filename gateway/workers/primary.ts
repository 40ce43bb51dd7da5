// Runs several processes that share the listener as one gateway: one start, one reload, one drain.
import cluster, { type Worker } from 'node:cluster'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Gateway } from '../gateway.ts'
import { createCertificates } from '../listener/certificates.ts'
import { openOpsListener } from '../observe/ops-listener.ts'
import type { Settings } from '../settings/settings.ts'
import { type Calls, createCalls } from '../siblings/channel.ts'
import { createWorkerMetrics } from './merged-metrics.ts'
import { createReload } from './reload.ts'
import { createRestarts } from './restarts.ts'
import { StartFailure } from './start-failure.ts'

/** How long siblings are waited for; less than who asked for them waits. */
const ASK_TIMEOUT_MS = 500
const METRICS_TIMEOUT_MS = 2000
/** After the drain time, for stores to be closed; then a worker is ended. */
const CLOSE_GRACE_MS = 10_000

interface Member {
  readonly worker: Worker
  readonly calls: Calls
  readonly startedAt: number
  /** 0 until it listens. */
  port: number
  failure: string | undefined
}

type State = 'starting' | 'ready' | 'draining'

/**
 * Forks the workers, the first one alone: what is wrong with the surroundings is then said once, and the others find the
 * database migrated.
 * @param onGiveUp no worker can be started any more
 * @throws {StartFailure} when a worker cannot start; none is left then
 */
export const startWorkers = async (settings: Settings, log: Logger, onGiveUp: () => void): Promise<Gateway> => {
  // The workers accept from one queue. Handed out in turn by this process, a connection that is on its way to a worker as
  // that is killed would stay open, unanswered, without end.
  cluster.schedulingPolicy = cluster.SCHED_NONE
  // Advanced: numbers that JSON cannot carry stay what they are.
  cluster.setupPrimary({ exec: join(import.meta.dirname, 'worker.ts'), serialization: 'advanced' })
  const members = new Map<number, Member>()
  const restarts = createRestarts()
  const pauses = new Set<NodeJS.Timeout>()
  let state: State = 'starting'

  const ready = () => [...members.values()].filter(({ port }) => port > 0)
  const reloadRoutes = createReload(() => ready().map(({ calls }) => calls), log)
  const certificates = settings.tls && createCertificates({ tls: settings.tls, log })
  certificates?.onChange(next => {
    for (const { calls } of ready()) calls.call('certificate.changed', [next]).catch(() => undefined)
  })
  const reload = async (isAsked = false): Promise<boolean> => {
    const read = await Promise.all([reloadRoutes(isAsked), certificates?.reload() ?? true])
    return !read.includes(false)
  }
  const askAll = async (name: string, args: readonly unknown[], except: Member, timeoutMs: number) => {
    const others = ready().filter(member => member !== except)
    const answers = await Promise.allSettled(others.map(({ calls }) => calls.call(name, args, timeoutMs)))
    return answers.flatMap(answer => (answer.status === 'fulfilled' ? [answer.value] : []))
  }

  /** Resolves when it listens; rejects when it ends before that. */
  const fork = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const worker = cluster.fork()
      const calls = createCalls(message => void (worker.isConnected() && worker.send(message)))
      const member: Member = { worker, calls, startedAt: performance.now(), port: 0, failure: undefined }
      members.set(worker.id, member)
      calls.answer('ready', (port: number) => {
        member.port = port
        // It may have changed since this worker asked for it.
        if (certificates !== undefined) calls.call('certificate.changed', [certificates.state()]).catch(() => undefined)
        resolve(port)
      })
      calls.answer('failed', (text: string) => {
        member.failure = text
      })
      calls.answer('settings', () => settings)
      calls.answer('certificate', () => certificates?.state())
      calls.answer('ask', (name: string, args: unknown[]) => askAll(name, args, member, ASK_TIMEOUT_MS))
      calls.answer('reload', reload)
      worker.on('message', calls.receive)
      // The channel breaks when a worker is killed; its exit says so.
      worker.on('error', () => undefined)
      worker.on('exit', (code, signal) => {
        members.delete(worker.id)
        calls.close()
        metrics.forget(worker.id)
        reject(new StartFailure(member.failure ?? `The gateway cannot start: a worker ended (${signal ?? code})`))
        if (state === 'ready' || (state === 'starting' && member.port > 0)) replace(member, code, signal)
      })
    })

  const replace = ({ worker, startedAt, port, failure }: Member, code: number, signal: string) => {
    const end = { wasReady: port > 0, livedMs: performance.now() - startedAt, othersReady: ready().length }
    const delayMs = restarts.next(end)
    log.error({ worker: worker.process.pid, code, signal, failure, delayMs }, 'a worker has ended')
    if (delayMs === undefined) return onGiveUp()
    const pause = setTimeout(() => {
      pauses.delete(pause)
      // Its end is seen by the handler above. What it read of the route files may be newer than what the others use.
      fork().then(
        () => {
          log.info({ workers: ready().length }, 'a worker has been replaced')
          return reload()
        },
        () => undefined
      )
    }, delayMs)
    pauses.add(pause)
  }

  const killAll = () => {
    for (const { worker } of members.values()) worker.process.kill('SIGKILL')
  }
  // Whatever ends this process: nothing is left behind.
  process.once('exit', killAll)

  const metrics = createWorkerMetrics({
    async ask() {
      const answers = new Map<number, unknown>()
      const asked = ready().map(async ({ worker, calls }) => {
        answers.set(worker.id, await calls.call('metrics', [], METRICS_TIMEOUT_MS))
      })
      await Promise.allSettled(asked)
      return answers
    },
    readyWorkers: () => ready().length,
    restarts: () => restarts.count
  })
  const readiness = () => (state === 'ready' && ready().length < settings.workers ? 'starting' : state)
  const { port: opsPort, host } = settings.ops
  const ops = opsPort === undefined ? undefined : await openOpsListener({ port: opsPort, host, metrics, readiness })

  const allGone = (timeoutMs: number): Promise<boolean> =>
    new Promise(resolve => {
      const look = () => {
        if (members.size > 0) return
        clearTimeout(late)
        cluster.off('exit', look)
        resolve(true)
      }
      const late = setTimeout(() => {
        cluster.off('exit', look)
        killAll()
        resolve(false)
      }, timeoutMs)
      cluster.on('exit', look)
      look()
    })

  const startAll = async (): Promise<number> => {
    try {
      const port = await fork()
      await Promise.all(Array.from({ length: settings.workers - 1 }, fork))
      return port
    } catch (error) {
      state = 'draining'
      killAll()
      await Promise.all([allGone(CLOSE_GRACE_MS), ops?.close()])
      throw error
    }
  }
  const port = await startAll()
  state = 'ready'

  return {
    port,
    redirectPort: settings.redirectPort,
    opsPort: ops?.port,
    reload,
    async close() {
      state = 'draining'
      for (const pause of pauses) clearTimeout(pause)
      if (settings.drainDelayMs > 0) {
        for (const { calls } of ready()) calls.call('end.announce').catch(() => undefined)
        await sleep(settings.drainDelayMs)
      }
      for (const { worker, calls, port } of members.values()) {
        if (port === 0) worker.process.kill('SIGKILL')
        else calls.call('close').catch(() => undefined)
      }
      const isClean = await allGone(settings.drainTimeoutMs + CLOSE_GRACE_MS)
      certificates?.close()
      await ops?.close()
      if (!isClean) throw new Error('a worker had to be ended')
    }
  }
}
