// Writes log lines without blocking the process, exhausting its memory or bringing it down.
import { constants, fstatSync, openSync, write, writeSync } from 'node:fs'
import { Socket } from 'node:net'

// Not pino's own destination (sonic-boom 4.2): its flush at exit does not return at ENOSPC, at EPIPE and before a reader that has
// stopped, and the latter also occupies a thread of the pool, which keeps the process from ending.

export type LogSink = ReturnType<typeof createLogSink>

interface LogSinkOptions {
  /** File descriptor; default 1, standard output. */
  fd?: number
  /** Bytes (UTF-16 units) buffered while the output accepts none; default 8 MiB. */
  maxBuffered?: number
  /** The line that reports, once the output works again, how many were lost; default: none. */
  lostLine?: (lost: number) => string
  /** Maximum bytes per write, unless one line is longer; default 64 KiB. */
  maxWrite?: number
}

const MAX_WRITE = 64 * 1024
/** What a pipe accepts completely or not at all (PIPE_BUF), so that lines of several writers are not interleaved. */
export const SHARED_PIPE_WRITE = 4096
const RETRY_MS = 100
const LAST_ATTEMPT_MS = 200

/** A sink for a file descriptor. It lives as long as the process; at `exit` it writes what is left. */
export const createLogSink = (options: LogSinkOptions = {}) => {
  const { maxBuffered = 8 * 1024 * 1024, maxWrite = MAX_WRITE, lostLine } = options
  const fd = withoutBlocking(options.fd ?? 1)
  /** Those that are in no block yet, and their UTF-16 units. */
  let lines: string[] = []
  let size = 0
  /** The unwritten rest of the block in progress, and the number of lines it began with. */
  let block = Buffer.alloc(0)
  let blockLines = 0
  /** `writing`: a thread of the pool has the block. `gone`: nothing can be written any more. */
  let state: 'idle' | 'due' | 'writing' | 'gone' = 'idle'
  let isBroken = false
  let dropped = 0
  let reported = 0

  const keep = (line: string) => {
    lines.push(line)
    size += line.length
  }
  /** Reports once when the output breaks and once when it works again. */
  const change = (broken: boolean, code = '') => {
    if (isBroken === broken) return
    isBroken = broken
    if (broken) return complain(`The log output does not take lines (${code}); they are dropped`)
    const lost = dropped - reported
    reported = dropped
    if (lost > 0 && lostLine !== undefined) keep(lostLine(lost))
    complain(`The log output works again; ${lost} lines were lost`)
  }
  /** The block in progress, or else one of the lines that fit into a write; empty if there are none. */
  const nextBlock = (): Buffer => {
    if (block.length > 0 || lines.length === 0) return block
    blockLines = 0
    let bytes = 0
    do bytes += Buffer.byteLength(lines[blockLines++] ?? '')
    while (blockLines < lines.length && bytes + Buffer.byteLength(lines[blockLines] ?? '') <= maxWrite)
    const text = lines.splice(0, blockLines).join('')
    size -= text.length
    block = Buffer.from(text)
    return block
  }
  const taken = (bytes: number) => {
    block = block.subarray(bytes)
    if (size < maxBuffered / 2) change(false)
  }
  const failed = (code: string) => {
    if (FINAL.has(code)) {
      state = 'gone'
      dropped += lines.length + (block.length === 0 ? 0 : blockLines)
      lines = []
      block = Buffer.alloc(0)
      return change(true, code)
    }
    // EAGAIN alone means a slow reader; the output counts as broken only once lines are lost.
    if (code !== 'EAGAIN') change(true, code)
    setTimeout(pump, RETRY_MS).unref()
  }
  const pump = () => {
    state = nextBlock().length === 0 ? 'idle' : 'writing'
    if (state === 'idle') return
    write(fd, block, (error, bytes) => {
      state = 'due'
      if (error !== null) return failed(codeOf(error))
      taken(bytes)
      pump()
    })
  }
  /** Last attempt while the process exits: writes what can be written within 200 ms. */
  const flushSync = () => {
    const deadline = performance.now() + LAST_ATTEMPT_MS
    // A thread of the pool will finish its block; writing it here too would duplicate those lines.
    if (state === 'writing') block = Buffer.alloc(0)
    while (nextBlock().length > 0) {
      try {
        taken(writeSync(fd, block))
      } catch (error) {
        if (codeOf(error) !== 'EAGAIN' || performance.now() >= deadline) return
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
      }
    }
  }
  process.once('exit', flushSync)

  return {
    /** Takes a line; drops it if the buffer is full. Never throws. */
    write(line: string) {
      if (state === 'gone' || size + line.length > maxBuffered) {
        dropped++
        return change(true, 'EAGAIN')
      }
      keep(line)
      if (state !== 'idle') return
      state = 'due'
      // One write for everything logged in this turn of the loop.
      setImmediate(pump)
    },
    /** Lines lost since the start: the buffer was full, or the output is gone permanently. */
    dropped: () => dropped
  }
}

/** The reader is gone or the descriptor is closed. */
const FINAL: ReadonlySet<string> = new Set(['EPIPE', 'EBADF', 'ECONNRESET'])

// A pipe is reopened, because O_NONBLOCK belongs to the open file description, which stdout shares with others.
// A socket (journald, a Node parent) cannot be reopened; libuv sets the flag when it takes the descriptor.
const withoutBlocking = (fd: number): number => {
  try {
    const kind = fstatSync(fd)
    if (kind.isSocket()) new Socket({ fd, readable: false }).on('error', () => {}).unref()
    return kind.isFIFO() ? openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK) : fd
  } catch {
    return fd
  }
}

const complain = (text: string): void => {
  stderr ??= withoutBlocking(2)
  write(stderr, `${text}\n`, () => {})
}
let stderr: number | undefined

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'EIO'
