// Asks for /health on a new connection, and for an echo on one WebSocket, while something else goes on, and says how long both took.
//
// What other processes of the machine cost is left out of one column: the time for which the gateway's event loop and this process were
// ready to run and had no core (`run_delay` of /proc/PID/schedstat) is taken from each /health in `less core waits ms`.
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { WebSocket } from 'ws'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { percentile } from '../statistics.ts'
import type { World } from '../world.ts'

export const [HEALTH_P99, HEALTH_MAX] = ['/health p99 ms', '/health max ms'] as const
export const ECHO_MEDIAN = 'echo median ms'

const EVERY_MS = 20

/** Milliseconds for which the main thread has been ready to run without a core. */
const waitedForCore = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6

const spread = (name: string, values: readonly number[]) => {
  const sorted = values.toSorted((a, b) => a - b)
  const shares = { median: 0.5, p99: 0.99, max: 1 }
  return Object.fromEntries(
    Object.entries(shares).map(([word, share]) => [`${name} ${word} ms`, percentile(sorted, share)])
  )
}

/** The function that it returns gives what was felt; what is still waited for then counts as long as it has been. */
const startAsking = ({ token, teardown }: World, { port, pid }: Peer, echoPath: string) => {
  const health: number[] = []
  /** The same without what both waited for a core. */
  const healthOnCore: number[] = []
  const echoes: number[] = []
  let [askedAt, waitedBefore, echoSentAt] = [0, 0, 0]
  let failure: string | undefined
  const fail = (reason: string) => {
    failure ??= reason
  }

  const waitedForCores = () => waitedForCore(pid) + waitedForCore(process.pid)
  const noteHealth = () => {
    const tookMs = performance.now() - askedAt
    health.push(tookMs)
    healthOnCore.push(tookMs - (waitedForCores() - waitedBefore))
    askedAt = 0
  }
  const noteEcho = () => {
    echoes.push(performance.now() - echoSentAt)
    echoSentAt = 0
  }
  const askHealth = () => {
    if (askedAt !== 0) return
    waitedBefore = waitedForCores()
    askedAt = performance.now()
    const asked = request({ port, host: '127.0.0.1', path: '/health', agent: false }, answer => {
      if (answer.statusCode !== 200) fail(`/health answered ${answer.statusCode}`)
      answer.resume().on('end', noteHealth)
    })
    asked.on('error', error => fail(error.message)).end()
  }
  const open = (path: string) => {
    const headers = { authorization: `Bearer ${token}` }
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers, perMessageDeflate: false })
    socket.on('error', error => fail(error.message))
    return socket.on('message', noteEcho).on('close', code => fail(`closed with ${code}`))
  }
  const socket = echoPath === '' ? undefined : open(echoPath)
  const sendEcho = () => {
    if (echoSentAt !== 0 || socket?.readyState !== WebSocket.OPEN) return
    echoSentAt = performance.now()
    socket.send('a word')
  }
  const timers = [setInterval(askHealth, EVERY_MS), setInterval(sendEcho, EVERY_MS)]
  const stop = () => {
    for (const timer of timers) clearInterval(timer)
    socket?.terminate()
  }
  teardown(stop)

  /** @throws VoidRun when something was not answered as it must be */
  return (): Readonly<Record<string, number>> => {
    if (askedAt !== 0) noteHealth()
    if (echoSentAt !== 0) noteEcho()
    stop()
    if (failure !== undefined) throw new VoidRun(`beside the load, ${failure}`)
    return {
      asked: health.length,
      ...spread('/health', health),
      'less core waits ms': Math.max(...healthOnCore),
      ...(socket === undefined ? {} : spread('echo', echoes))
    }
  }
}

/** @param echoPath where echoes come from; '' for none */
export const besideQuietPerson = async <T>(world: World, gateway: Peer, echoPath: string, work: () => Promise<T>) => {
  const end = startAsking(world, gateway, echoPath)
  const result = await work()
  return { result, felt: end() }
}
