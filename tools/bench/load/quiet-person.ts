// Asks for /health on a new connection, and with `echoPath` for an echo on one WebSocket, until SIGTERM, and prints how long both took.
//
// What other processes of the machine cost is left out of one column: the time for which the gateway's event loop and this process were
// ready to run and had no core (`run_delay` of /proc/PID/schedstat) is taken from each /health in `less core waits ms`.
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { WebSocket } from 'ws'
import { percentile } from '../statistics.ts'

interface Flags {
  readonly port: number
  readonly token: string
  readonly gatewayPid: number
  /** Where echoes come from; '' for none. */
  readonly echoPath: string
}

const { port, token, gatewayPid, echoPath } = JSON.parse(process.argv[2] ?? '{}') as Flags
const EVERY_MS = 20
const health: number[] = []
/** The same without what both waited for a core. */
const healthOnCore: number[] = []
const echoes: number[] = []
let askedAt = 0
let waitedBefore = 0
let echoSentAt = 0

/** Milliseconds for which the main thread has been ready to run without a core. */
const waitedForCore = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6
const waitedForCores = () => waitedForCore(gatewayPid) + waitedForCore(process.pid)

const noteHealth = () => {
  const tookMs = performance.now() - askedAt
  health.push(tookMs)
  healthOnCore.push(tookMs - (waitedForCores() - waitedBefore))
}

const fail = (reason: string) => {
  console.error(reason)
  process.exit(1)
}

const askHealth = () => {
  if (askedAt !== 0) return
  waitedBefore = waitedForCores()
  askedAt = performance.now()
  const asked = request({ port, host: '127.0.0.1', path: '/health', agent: false }, answer => {
    if (answer.statusCode !== 200) fail(`/health answered ${answer.statusCode}`)
    answer.resume()
    answer.on('end', () => {
      noteHealth()
      askedAt = 0
    })
  })
  asked.on('error', error => fail(error.message))
  asked.end()
}

const sendEchoes = (path: string) => {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
    headers: { authorization: `Bearer ${token}` },
    perMessageDeflate: false
  })
  socket.on('message', () => {
    echoes.push(performance.now() - echoSentAt)
    echoSentAt = 0
  })
  socket.on('close', code => fail(`closed with ${code}`))
  const send = () => {
    if (echoSentAt !== 0) return
    echoSentAt = performance.now()
    socket.send('a word')
  }
  socket.on('open', () => setInterval(send, EVERY_MS))
}

process.on('SIGTERM', () => {
  // What is still waited for counts as long as it has been.
  if (askedAt !== 0) noteHealth()
  if (echoSentAt !== 0) echoes.push(performance.now() - echoSentAt)
  const spread = (name: string, values: readonly number[]) => {
    const sorted = values.toSorted((a, b) => a - b)
    return Object.fromEntries(
      Object.entries({ median: 0.5, p99: 0.99, max: 1 }).map(([word, share]) => [
        `${name} ${word} ms`,
        percentile(sorted, share)
      ])
    )
  }
  const figures = {
    asked: health.length,
    ...spread('/health', health),
    'less core waits ms': Math.max(...healthOnCore),
    ...(echoPath === '' ? {} : spread('echo', echoes))
  }
  process.stdout.write(`${JSON.stringify(figures)}\n`, () => process.exit(0))
})
if (echoPath !== '') sendEchoes(echoPath)
setInterval(askHealth, EVERY_MS)
process.stdout.write('{"opened":1}\n')
