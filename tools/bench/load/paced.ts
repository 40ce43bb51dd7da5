// Sends GET requests at a fixed rate whatever the answers do.
//
// Open loop: every request has a due time on a fixed grid and its latency counts from that time, also when it had to
// wait for a free connection, so a slow answer cannot hide the ones queued behind it (coordinated omission). The grid
// is served by a 1 ms timer; up to 1 ms of every latency is the generator's own, for every gateway alike. When the
// generator itself was held up for longer, `heldUpMs` says so: such latencies say nothing about the gateway.
import { percentile } from '../statistics.ts'
import { connect, type Slot } from './http-client.ts'

interface Pace {
  readonly rate: number
  readonly seconds: number
  /** Requests due in the first so many seconds are sent, not counted. */
  readonly skip: number
}

const CONNECTIONS = 64

export const sendPaced = (port: number, path: string, token: string, { rate, seconds, skip }: Pace) => {
  const total = Math.floor(rate * seconds)
  const skipped = Math.floor(rate * skip)
  const head = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`
  const latencies = new Float64Array(Math.max(0, total - skipped))
  const free: Slot[] = []
  let [sent, answered, counted, failed, tickedAt, heldUpMs] = [0, 0, 0, 0, 0, 0]
  const { promise, resolve } = Promise.withResolvers<void>()

  /** The connections get this long to open before the first request is due. */
  const startedAt = performance.now() + 100
  const dueAt = (index: number) => startedAt + (index * 1000) / rate

  const open = () => {
    connect(port).then(
      slot => free.push(slot),
      () => undefined
    )
  }
  const pump = () => {
    const now = performance.now()
    while (sent < total && dueAt(sent) <= now) {
      const slot = free.pop()
      if (slot === undefined) return
      const index = sent
      sent += 1
      slot.send(head, status => settle(slot, index, status))
    }
  }
  const settle = (slot: Slot, index: number, status: number) => {
    answered += 1
    if (status !== 200) failed += 1
    if (status === 0) open()
    else free.push(slot)
    if (index >= skipped) {
      latencies[counted] = performance.now() - dueAt(index)
      counted += 1
    }
    if (answered === total) resolve()
    else pump()
  }
  const tick = () => {
    const now = performance.now()
    if (tickedAt > 0 && sent > skipped) heldUpMs = Math.max(heldUpMs, now - tickedAt)
    tickedAt = now
    pump()
  }

  const timer = setInterval(tick, 1)
  const deadline = setTimeout(resolve, (seconds + 10) * 1000)
  for (let count = 0; count < CONNECTIONS; count += 1) open()
  return promise.then(() => {
    clearInterval(timer)
    clearTimeout(deadline)
    for (const slot of free) slot.close()
    const missing = total - answered
    // What is answered late sends no more.
    sent = total
    const sorted = latencies.subarray(0, counted).sort()
    return {
      failed: failed + missing,
      p50Ms: percentile(sorted, 0.5),
      p99Ms: percentile(sorted, 0.99),
      heldUpMs
    }
  })
}
