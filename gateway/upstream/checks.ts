// Checks the health of a target, with its health path if the route file has one, otherwise by connecting.
import type { Target, Upstream } from '../routes/upstream.ts'
import { noteFault, task } from '../values/contain.ts'
import { UpstreamConnection } from './connection.ts'
import { dial } from './dial.ts'
import { requestRulesOf } from './headers/header-rules.ts'
import type { HealthProbe } from './health.ts'
import type { Requester } from './requester.ts'

const MAX_CHECK_MS = 5000

/** One request, one result: whatever comes first counts, and everything else is dropped. */
const once = (done: (failure: string | undefined) => void, timeoutMs: number, letGo: () => void) => {
  let isOver = false
  const end = (): boolean => {
    if (isOver) return false
    isOver = true
    clearTimeout(timer)
    letGo()
    return true
  }
  const settle = (failure: string | undefined) => {
    if (end()) done(failure)
  }
  const timer = setTimeout(task(settle), timeoutMs, 'check-timeout').unref()
  return { settle, abort: () => void end() }
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
      task(() => settle('unreachable'))
    )
    return abort
  }

/** 2xx and 3xx mean healthy. */
const probePath =
  (upstream: Upstream, target: Target, path: string, timeoutMs: number, now: () => number): HealthProbe =>
  done => {
    const connection = new UpstreamConnection(upstream, target, {
      now,
      onFree: free => free.destroy(),
      onClosed: () => undefined
    })
    const { settle, abort } = once(done, timeoutMs, () => connection.destroy())
    const requester: Requester = {
      onInterim: () => undefined,
      onThrown(error) {
        noteFault('task', error)
        settle('check-fault')
      },
      onDrain: () => undefined,
      onHead: ({ status }) => settle(status < 400 ? undefined : 'check-status'),
      onBody: () => undefined,
      onEnd: () => undefined,
      onFault: fault => settle(`check-${fault}`)
    }
    const own = `host: ${target.authority}\r\nuser-agent: portaria-health-check\r\naccept: */*\r\nconnection: close\r\n`
    const head = `GET ${path} HTTP/1.1\r\n${own}${requestRulesOf(upstream)?.lines ?? ''}\r\n`
    connection.send('GET', head, requester, timeoutMs)
    connection.finish()
    return abort
  }

export const probeOf = (upstream: Upstream, target: Target, now: () => number): HealthProbe => {
  const { healthCheck } = upstream
  if (healthCheck === undefined) return probeConnection(upstream, target)
  const timeoutMs = Math.min(MAX_CHECK_MS, upstream.timeoutMs + upstream.connectTimeoutMs)
  return probePath(upstream, target, healthCheck.path, timeoutMs, now)
}
