// Checks the health of a target, with its health path if the route file has one, otherwise by connecting.
import type { HealthCheck, Target, Upstream } from '../routes/upstream.ts'
import { noteFault, task } from '../values/contain.ts'
import { noteOutOfDescriptors } from '../values/descriptors.ts'
import { UpstreamConnection } from './connection.ts'
import { dial } from './dial.ts'
import { EXHAUSTED } from './faults.ts'
import { requestRulesOf } from './headers/header-rules.ts'
import type { HealthProbe } from './health.ts'
import type { Requester } from './parser.ts'

export interface ProbeContext {
  /** Monotonic ms. */
  readonly now: () => number
  /** The host of PUBLIC_URL, as in the requests of an upstream with `preserveHost`. */
  readonly publicHost: string
}

/** One request, one result: whatever comes first counts, and everything else is dropped. */
const once = (done: (failure: string | undefined) => void, timeoutMs: number, release: () => void) => {
  let isOver = false
  const end = (then: () => void) => {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    release()
    then()
  }
  const settle = (failure: string | undefined) => end(() => done(failure))
  const timer = setTimeout(task(settle), timeoutMs, 'check-timeout').unref()
  return { settle, abort: () => end(() => undefined) }
}

const probeConnection =
  (upstream: Upstream, target: Target): HealthProbe =>
  done => {
    const socket = dial(upstream, target)
    const { settle, abort } = once(done, upstream.connectTimeoutMs, () => socket.destroy())
    socket.once(
      target.tls ? 'secureConnect' : 'connect',
      task(() => settle(undefined))
    )
    socket.on(
      'error',
      task(error => settle(noteOutOfDescriptors(error) ? EXHAUSTED : 'unreachable'))
    )
    return abort
  }

const probePath =
  (upstream: Upstream, target: Target, check: HealthCheck, { now, publicHost }: ProbeContext): HealthProbe =>
  done => {
    const connection = new UpstreamConnection(upstream, target, {
      now,
      onFree: free => free.destroy(),
      onClosed: () => undefined
    })
    const { settle, abort } = once(done, check.timeoutMs, () => connection.destroy())
    const requester: Requester = {
      onThrown(error) {
        noteFault('task', error)
        settle('check-fault')
      },
      onHead: ({ status }) =>
        settle(status >= check.status.from && status <= check.status.to ? undefined : 'check-status'),
      onFault: fault => settle(fault === EXHAUSTED ? fault : `check-${fault}`)
    }
    const host = check.host ?? (upstream.preserveHost ? publicHost : target.authority)
    const own = `host: ${host}\r\nuser-agent: portaria-health-check\r\naccept: */*\r\nconnection: close\r\n`
    const head = `GET ${check.path} HTTP/1.1\r\n${own}${requestRulesOf(upstream)?.lines ?? ''}\r\n`
    connection.send('GET', head, requester, check.timeoutMs)
    connection.finish()
    return abort
  }

export const probeOf = (upstream: Upstream, target: Target, context: ProbeContext): HealthProbe =>
  upstream.healthCheck === undefined
    ? probeConnection(upstream, target)
    : probePath(upstream, target, upstream.healthCheck, context)
