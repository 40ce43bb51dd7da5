// Collects the garbage of a gateway of the soak on SIGUSR2, and writes down what is left.
import { writeFileSync } from 'node:fs'

export interface Left {
  readonly heapMb: number
  /** Sockets, servers, timers, pipes: whatever keeps the process alive. */
  readonly handles: number
}

const collect = (globalThis as { gc?: () => void }).gc

process.on('SIGUSR2', () => {
  collect?.()
  collect?.()
  const left: Left = { heapMb: process.memoryUsage().heapUsed / 1e6, handles: process.getActiveResourcesInfo().length }
  writeFileSync(process.env.SOAK_LEFT ?? '/dev/null', JSON.stringify(left))
})
