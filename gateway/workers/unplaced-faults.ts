// Ends the process after a fault that belongs to no request, connection or task: one fatal line, then a drain, then the exit status of a fault.
import type { Logger } from 'pino'
import { noteFault } from '../values/contain.ts'
import { timerMs } from '../values/quantities.ts'
import { EXIT } from './start-failure.ts'

/** Time for closing stores after the drain; then the process ends regardless. */
const CLOSE_GRACE_MS = 10_000

/**
 * What such a fault has left half done is unknown, so the process must not go on; but what it is serving may finish.
 * @param drain finishes what is in progress and closes everything
 * @param drainMs how long that may take
 */
export const drainAfterFault = (log: Logger, drain: () => Promise<unknown>, drainMs: number): void => {
  let isEnding = false
  // Rejections that nothing handles arrive here too.
  process.on('uncaughtException', (error, origin) => {
    if (isEnding) {
      noteFault('task', error)
      return
    }
    isEnding = true
    process.exitCode = EXIT.fault
    log.fatal({ err: error, origin }, 'a fault that belongs to no request: the process drains and ends; report it')
    setTimeout(process.exit, timerMs(drainMs + CLOSE_GRACE_MS), EXIT.fault)
    drain()
      .catch((further: unknown) => log.error({ err: further }, 'the gateway could not stop cleanly'))
      .finally(() => process.exit(EXIT.fault))
  })
}
