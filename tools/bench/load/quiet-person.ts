// Asks for /health on a new connection and for an echo on one WebSocket, again and again until SIGTERM, and prints how long both took.
//
// What other processes of the machine cost is told apart: the time for which the gateway's event loop and this process were
// ready to run and had no core (`run_delay` of /proc/PID/schedstat) is taken from each /health in `less core waits ms`.
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { WebSocket } from 'ws'
import { median } from '../statistics.ts'

interface Flags {
  readonly port: number
  readonly token: string
  readonly gatewayPid: number
}

const { port, token, gatewayPid } = JSON.parse(process.argv[2] ?? '{}') as Flags
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

const askHealth = () => {
  if (askedAt !== 0) return
  waitedBefore = waitedForCores()
  askedAt = performance.now()
  const asked = request({ port, host: '127.0.0.1', path: '/health', agent: false }, answer => {
    answer.resume()
    answer.on('end', () => {
      noteHealth()
      askedAt = 0
    })
  })
  asked.on('error', error => {
    console.error(error.message)
    process.exit(1)
  })
  asked.end()
}

const socket = new WebSocket(`ws://127.0.0.1:${port}/quiet`, {
  headers: { authorization: `Bearer ${token}` },
  perMessageDeflate: false
})
const sendEcho = () => {
  if (echoSentAt !== 0) return
  echoSentAt = performance.now()
  socket.send('a word')
}
socket.on('message', () => {
  echoes.push(performance.now() - echoSentAt)
  echoSentAt = 0
})
socket.on('close', code => {
  console.error(`closed with ${code}`)
  process.exit(1)
})

process.on('SIGTERM', () => {
  // What is still waited for counts as long as it has been.
  if (askedAt !== 0) noteHealth()
  if (echoSentAt !== 0) echoes.push(performance.now() - echoSentAt)
  const figures = {
    '/health max ms': Math.max(...health),
    'less core waits ms': Math.max(...healthOnCore),
    '/health median ms': median(health),
    'echo median ms': median(echoes),
    'echo max ms': Math.max(...echoes)
  }
  process.stdout.write(`${JSON.stringify(figures)}\n`, () => process.exit(0))
})
socket.on('open', () => {
  process.stdout.write('{"opened":1}\n')
  setInterval(askHealth, EVERY_MS)
  setInterval(sendEcho, EVERY_MS)
})
