// Sends GET requests at a fixed rate whatever the answers do, and prints what came back as one line of JSON.
//
// Open loop: every request has a due time on a fixed grid and its latency counts from that time, also when it had to
// wait for a free connection, so a slow answer cannot hide the ones queued behind it (coordinated omission). The grid
// is served by a 1 ms timer; up to 1 ms of every latency is the generator's own, for every gateway alike. When the
// generator itself was held up for longer, `heldUpMs` says so: such latencies say nothing about the gateway.
import { percentile } from '../statistics.ts'
import { connect, type Slot } from './http-client.ts'

interface Flags {
  readonly port: number
  readonly path: string
  readonly token: string
  readonly rate: number
  readonly seconds: number
  /** Requests due in the first so many seconds are sent, not counted. */
  readonly skip: number
}

const { port, path, token, rate, seconds, skip } = JSON.parse(process.argv[2] ?? '{}') as Flags
const CONNECTIONS = 64
const total = Math.floor(rate * seconds)
const skipped = Math.floor(rate * skip)
const head = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`

const latencies = new Float64Array(Math.max(0, total - skipped))
const free: Slot[] = []
let sent = 0
let answered = 0
let counted = 0
let failed = 0
let tickedAt = 0
let heldUpMs = 0

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

const tick = () => {
  const now = performance.now()
  if (tickedAt > 0 && sent > skipped) heldUpMs = Math.max(heldUpMs, now - tickedAt)
  tickedAt = now
  pump()
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
  if (answered === total) finish()
  else pump()
}

const finish = () => {
  clearInterval(timer)
  clearTimeout(deadline)
  const sorted = latencies.subarray(0, counted).sort()
  const result = {
    failed: failed + (total - answered),
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    heldUpMs
  }
  process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0))
}

const timer = setInterval(tick, 1)
const deadline = setTimeout(finish, (seconds + 10) * 1000)
for (let count = 0; count < CONNECTIONS; count += 1) open()
