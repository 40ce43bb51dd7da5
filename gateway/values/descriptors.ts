// Notices that the process has no file descriptor left for a connection or a file, and when it has some again.
import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { every } from './contain.ts'

interface DescriptorEvents {
  /** Reported once; the next time only after `onFree`. */
  onExhausted(error: unknown): void
  onFree(): void
}

const CHECK_MS = 1000
/** None has been missing for so long. */
const FREE_AFTER_MS = 10_000

/** Monotonic ms of the last time; undefined: some are left. */
let missingAt: number | undefined
let times = 0
let events: DescriptorEvents | undefined

const tryOne = (): unknown => {
  try {
    closeSync(openSync(devNull, 'r'))
    return undefined
  } catch (error) {
    return error
  }
}

/**
 * EMFILE is the limit of the process, ENFILE that of the machine. A worker that cannot start has them in its message only, and
 * an attempt at several addresses in its code only.
 */
const namesIt = (error: unknown): boolean =>
  error instanceof Error && /\bE[MN]FILE\b/.test(`${'code' in error ? error.code : ''} ${error.message}`)

/** The resolver opens files and sockets too, but only says that it found nothing. */
const isLookUp = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && error.syscall === 'getaddrinfo'

/** Returns whether an error means that no descriptor was left; if so, it is counted and reported. */
export const noteOutOfDescriptors = (error: unknown): boolean => {
  if (!namesIt(error) && !(isLookUp(error) && namesIt(tryOne()))) return false
  times++
  const isNew = missingAt === undefined
  missingAt = performance.now()
  if (isNew) events?.onExhausted(error)
  return true
}

/** For a reader that takes any other error for a mistake in what it reads. */
export const unlessExhausted = (error: unknown): undefined => {
  if (namesIt(error)) throw error
}

export const timesOutOfDescriptors = (): number => times

/**
 * Opens a file every second, because the kernel's queue of new connections does not say why it loses them. The limit is one
 * of the process, and so is the listener. Returns a function that stops it.
 */
export const watchDescriptors = (listener: DescriptorEvents): (() => void) => {
  events = listener
  const look = () => {
    const error = tryOne()
    if (error !== undefined) noteOutOfDescriptors(error)
    else if (missingAt !== undefined && performance.now() - missingAt >= FREE_AFTER_MS) {
      missingAt = undefined
      listener.onFree()
    }
  }
  return every(CHECK_MS, look)
}
