// Writes log lines without blocking the process, exhausting its memory or bringing it down.
import { constants, fstatSync, openSync, write, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { createLineBuffer } from './line-buffer.ts'

// Not pino's own destination: its flush at exit retries ENOSPC and EPIPE without end, and a stopped reader of a pipe
// holds a thread of the pool, which also keeps the process from ending.

export interface LogSink {
  /** Takes a line; drops it when the buffer is full. Never throws. */
  write(line: string): void
  /** Calls back when all lines so far are written or given up, after `patienceMs` (1 s) at the latest. */
  flush(done?: () => void): void
  /** Last attempt while the process ends: writes what can be written within 200 ms. */
  flushSync(): void
  /** Lines lost since the start: the buffer was full, or the output is gone for good. */
  dropped(): number
}

interface LogSinkOptions {
  /** File descriptor; default 1, standard output. */
  fd?: number
  /** Bytes (UTF-16 units) kept while the output does not take them; default 8 MiB. */
  maxBuffered?: number
  /** Told once when the output breaks and once when it works again; default: one line on standard error. */
  onChange?: (state: 'broken' | 'working', code: string, lost: number) => void
  /** The line that says, once the output works again, how many were lost; default: none. */
  lostLine?: (lost: number) => string
  patienceMs?: number
  /** Bytes written at once at most, unless one line is longer; default 64 KiB. */
  maxWrite?: number
}

const MAX_WRITE = 64 * 1024
/** What a pipe takes whole or not at all (PIPE_BUF): lines of several writers do not break each other. */
export const SHARED_PIPE_WRITE = 4096
const RETRY_MS = 100
const LAST_ATTEMPT_MS = 200

/** A sink over a file descriptor. It lives as long as the process; at `exit` it writes what is left. */
export const createLogSink = (options: LogSinkOptions = {}): LogSink => {
  const fd = withoutBlocking(options.fd ?? 1)
  const maxBuffered = options.maxBuffered ?? 8 * 1024 * 1024
  const lines = createLineBuffer(options.maxWrite ?? MAX_WRITE)
  const losses = createLosses(options, lines)
  const flushes = createFlushes(options.patienceMs ?? 1000)
  let isWriting = false
  /** Whether a thread of the pool has the block just now. */
  let isHandedOver = false
  let isGone = false

  const taken = (bytes: number) => {
    lines.taken(bytes)
    if (lines.size < maxBuffered / 2) losses.change(false, '')
  }
  const failed = (code: string) => {
    if (isFinal(code)) {
      isGone = true
      losses.add(lines.discard())
      losses.change(true, code)
      return flushes.settle()
    }
    // EAGAIN alone is a slow reader: it is broken only once lines are lost.
    if (code !== 'EAGAIN') losses.change(true, code)
    isWriting = true
    setTimeout(pump, RETRY_MS).unref()
  }
  const pump = () => {
    const next = isGone ? undefined : lines.nextBlock()
    isWriting = next !== undefined
    if (next === undefined) return flushes.settle()
    isHandedOver = true
    write(fd, next, (error, bytes) => {
      isHandedOver = false
      if (error !== null) return failed(error.code ?? 'EIO')
      taken(bytes)
      pump()
    })
  }

  const sink: LogSink = {
    write(line) {
      if (isGone || lines.size + line.length > maxBuffered) {
        losses.add(1)
        if (!isGone) losses.change(true, 'EAGAIN')
        return
      }
      lines.keep(line)
      if (isWriting) return
      isWriting = true
      // One write for all that this turn of the loop has to say.
      setImmediate(pump)
    },
    flush(done = () => {}) {
      if (isGone || (!isWriting && lines.isEmpty())) done()
      else flushes.wait(done)
    },
    flushSync() {
      const deadline = performance.now() + LAST_ATTEMPT_MS
      // A thread of the pool still finishes what it has; written here too, those lines would stand there twice.
      if (isHandedOver) lines.dropBlock()
      for (let block = lines.nextBlock(); !isGone && block !== undefined; block = lines.nextBlock()) {
        const code = attempt(fd, block, taken)
        if (code === 'EAGAIN' && performance.now() < deadline) pause()
        else if (code !== undefined) return
      }
    },
    dropped: losses.total
  }
  process.once('exit', sink.flushSync)
  return sink
}

/** Counts the lines lost, and says once when the output breaks and once when it works again. */
const createLosses = (
  { onChange = complain, lostLine }: LogSinkOptions,
  lines: { readonly keep: (line: string) => void }
) => {
  let isBroken = false
  let total = 0
  let reported = 0
  return {
    add(count: number) {
      total += count
    },
    change(broken: boolean, code: string) {
      if (isBroken === broken) return
      isBroken = broken
      const lost = total - reported
      if (!broken) {
        reported = total
        if (lost > 0) lines.keep(lostLine?.(lost) ?? '')
      }
      onChange(broken ? 'broken' : 'working', code, lost)
    },
    total: () => total
  }
}

/** Calls back those who wait for lines to be written, after `patienceMs` at the latest. */
const createFlushes = (patienceMs: number) => {
  let waiting: (() => void)[] = []
  return {
    settle() {
      const done = waiting
      waiting = []
      for (const callback of done) callback()
    },
    wait(done: () => void) {
      const timer = setTimeout(() => {
        waiting = waiting.filter(callback => callback !== finish)
        done()
      }, patienceMs)
      const finish = () => {
        clearTimeout(timer)
        done()
      }
      waiting.push(finish)
    }
  }
}

const attempt = (fd: number, block: Buffer, taken: (bytes: number) => void): string | undefined => {
  try {
    taken(writeSync(fd, block))
    return undefined
  } catch (error) {
    return codeOf(error)
  }
}

/** The reader is gone or the descriptor is closed: nothing will ever be written again. */
const isFinal = (code: string): boolean => code === 'EPIPE' || code === 'EBADF' || code === 'ECONNRESET'

// A pipe is opened once more, because O_NONBLOCK belongs to the open file description, which stdout shares with others.
// A socket (journald, a parent that is Node) cannot be; libuv sets the flag when it takes the descriptor.
const withoutBlocking = (fd: number): number => {
  try {
    const kind = fstatSync(fd)
    if (kind.isSocket()) new Socket({ fd, readable: false }).on('error', () => {}).unref()
    return kind.isFIFO() ? openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK) : fd
  } catch {
    return fd
  }
}

const complain = (state: 'broken' | 'working', code: string, lost: number): void => {
  const text =
    state === 'broken'
      ? `The log output does not take lines (${code}); they are dropped`
      : `The log output works again; ${lost} lines were lost`
  stderr ??= withoutBlocking(2)
  write(stderr, `${text}\n`, () => {})
}
let stderr: number | undefined

const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'EIO'
