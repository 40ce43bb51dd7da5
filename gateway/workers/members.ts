// Forks the workers that share the listener, handles their calls, and detects when they end.
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Calls, createCalls } from '../instances/calls.ts'
import type { Certificates } from '../listener/certificates.ts'
import type { Settings } from '../settings/settings.ts'
import { moduleUrl } from '../values/package-files.ts'
import { timerMs } from '../values/quantities.ts'
import { compiledCodeEnv } from './compiled-code.ts'
import { StartFailure } from './start-failure.ts'

export interface Member {
  readonly worker: Worker
  readonly calls: Calls
  readonly startedAt: number
  readonly isReplacement: boolean
  /** 0 until it listens. */
  port: number
  failure: StartFailure | undefined
}

interface MembersParts {
  readonly settings: Settings
  readonly certificates: Certificates | undefined
  /** Has all but one read the route files. */
  readonly reload: (except: Member) => Promise<boolean>
  readonly onEnded: (member: Member, code: number, signal: string) => void
}

/** Less than the worker that asks waits. */
const CONNECTIONS_MS = 500
const DEFINITIONS_MS = 4000

export const createMembers = (parts: MembersParts) => {
  const { settings, certificates } = parts
  // The workers accept from one queue. If this process distributed connections, one on its way to a worker that is being
  // killed would stay open and unanswered forever.
  cluster.schedulingPolicy = cluster.SCHED_NONE
  // Advanced serialisation, so that numbers that JSON cannot represent are preserved.
  // Without arguments: Node.js would read the file of --env-file again, which may be another one by then.
  cluster.setupPrimary({
    exec: fileURLToPath(moduleUrl('gateway/workers/worker.ts')),
    args: [],
    serialization: 'advanced'
  })
  const members = new Map<number, Member>()
  let isEnding = false

  const ready = () => [...members.values()].filter(({ port }) => port > 0)

  /** The counts of all other workers that reply in time. */
  const connections = async (claims: unknown, except: Member) => {
    const others = ready().filter(member => member !== except)
    const options = { timeoutMs: CONNECTIONS_MS }
    const counts = await Promise.allSettled(others.map(({ calls }) => calls.call('connections', claims, options)))
    return counts.flatMap(count => (count.status === 'fulfilled' ? [count.value] : []))
  }

  /** What the first to reply has in use; undefined: there is none. Files may have mistakes when a worker is replaced. */
  const definitions = (): Promise<unknown> => {
    const options = { timeoutMs: DEFINITIONS_MS }
    return Promise.any(ready().map(({ calls }) => calls.call('definitions', undefined, options))).catch(() => undefined)
  }

  const announceEnd = ({ calls }: Member) => void calls.call('end.announce').catch(() => undefined)

  const fork = (isReplacement = false): Promise<number> =>
    new Promise((resolve, reject) => {
      const worker = cluster.fork(compiledCodeEnv())
      const calls = createCalls(message => void (worker.isConnected() && worker.send(message)))
      const member: Member = { worker, calls, startedAt: performance.now(), isReplacement, port: 0, failure: undefined }
      members.set(worker.id, member)
      calls.answer('ready', (port: number) => {
        member.port = port
        // It may have changed since this worker requested it.
        if (certificates !== undefined) calls.call('certificate.changed', certificates.state()).catch(() => undefined)
        if (isEnding) announceEnd(member)
        resolve(port)
      })
      calls.answer('failed', ({ text, status }: { text: string; status: number }) => {
        member.failure = new StartFailure(text, status)
      })
      calls.answer('settings', () => settings)
      calls.answer('certificate', () => certificates?.state())
      calls.answer('definitions', definitions)
      calls.answer('reload', () => parts.reload(member))
      calls.answer('connections', claims => connections(claims, member))
      worker.on('message', message => calls.receive(message))
      const onEnded = (code: number, signal: string) => {
        if (!members.delete(worker.id)) return
        calls.close()
        reject(member.failure ?? new StartFailure(`The gateway cannot start: a worker ended (${signal ?? code})`))
        parts.onEnded(member, code, signal)
      }
      // The channel breaks when a worker is killed, which its exit reports; a process that could not be started has none.
      worker.on('error', () => {
        if (worker.process.pid !== undefined) return
        onEnded(-1, '')
        cluster.emit('exit', worker, -1, '')
      })
      worker.on('exit', onEnded)
    })

  const killAll = () => {
    for (const { worker } of members.values()) worker.process.kill('SIGKILL')
  }

  /** False: some had to be killed. */
  const allGone = async (timeoutMs: number): Promise<boolean> => {
    const signal = AbortSignal.timeout(timerMs(timeoutMs))
    try {
      while (members.size > 0) await once(cluster, 'exit', { signal })
      return true
    } catch {
      killAll()
      return false
    }
  }

  return {
    all: () => [...members.values()],
    ready,
    fork,
    /** Also those that are still starting, once they serve. */
    announceEnd() {
      isEnding = true
      for (const member of ready()) announceEnd(member)
    },
    killAll,
    allGone
  }
}
