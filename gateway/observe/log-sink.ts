// Writes log lines without blocking the process, exhausting its memory or bringing it down.
import { constants, fstatSync, openSync, write, writeSync } from 'node:fs'
import { Socket } from 'node:net'

// Not pino's own destination, whose flush at exit retries ENOSPC and EPIPE without end. With it, a stopped reader of a pipe
// also occupies a thread of the pool, which keeps the process from ending.

export interface LogSink {
  /** Takes a line; drops it if the buffer is full. Never throws. */
  write(line: string): void
  /** Last attempt while the process exits: writes what can be written within 200 ms. */
  flushSync(): void
  /** Lines lost since the start: the buffer was full, or the output is gone permanently. */
  dropped(): number
}

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
export const createLogSink = (options: LogSinkOptions = {}): LogSink => {
  const fd = withoutBlocking(options.fd ?? 1)
  const maxBuffered = options.maxBuffered ?? 8 * 1024 * 1024
  const lines = createLineBuffer(options.maxWrite ?? MAX_WRITE)
  const losses = createLosses(options, lines)
  let isWriting = false
  /** Whether a thread of the pool is currently writing the block. */
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
      return losses.change(true, code)
    }
    // EAGAIN alone means a slow reader; the output counts as broken only once lines are lost.
    if (code !== 'EAGAIN') losses.change(true, code)
    isWriting = true
    setTimeout(pump, RETRY_MS).unref()
  }
  const pump = () => {
    const next = isGone ? undefined : lines.nextBlock()
    isWriting = next !== undefined
    if (next === undefined) return
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
      // One write for everything logged in this turn of the loop.
      setImmediate(pump)
    },
    flushSync() {
      const deadline = performance.now() + LAST_ATTEMPT_MS
      // A thread of the pool will finish its block; writing it here too would duplicate those lines.
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

/** Counts lost lines, and reports once when the output breaks and once when it works again. */
const createLosses = ({ lostLine }: LogSinkOptions, lines: { readonly keep: (line: string) => void }) => {
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
      complain(broken, code, lost)
    },
    total: () => total
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

/** The reader is gone or the descriptor is closed, so nothing can be written any more. */
const isFinal = (code: string): boolean => code === 'EPIPE' || code === 'EBADF' || code === 'ECONNRESET'

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

const complain = (isBroken: boolean, code: string, lost: number): void => {
  const text = isBroken
    ? `The log output does not take lines (${code}); they are dropped`
    : `The log output works again; ${lost} lines were lost`
  stderr ??= withoutBlocking(2)
  write(stderr, `${text}\n`, () => {})
}
let stderr: number | undefined

const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'EIO'

/** @param maxWrite maximum bytes of a block, unless one line is longer */
const createLineBuffer = (maxWrite: number) => {
  let lines: string[] = []
  /** The unwritten rest of the block in progress, and the number of lines it began with. */
  let block: Buffer | undefined
  let blockLines = 0

  const fit = (): number => {
    let bytes = 0
    let count = 0
    while (count < lines.length) {
      bytes += Buffer.byteLength(lines[count] ?? '')
      if (count > 0 && bytes > maxWrite) break
      count++
    }
    return count
  }

  const buffer = {
    /** UTF-16 units of the lines that are not in a block yet. A plain property, because it is read for every line. */
    size: 0,
    keep(line: string): void {
      if (line === '') return
      lines.push(line)
      buffer.size += line.length
    },
    /** The block in progress, or the next one; undefined if there is nothing to write. */
    nextBlock(): Buffer | undefined {
      if (block !== undefined || lines.length === 0) return block
      blockLines = fit()
      const text = lines.slice(0, blockLines).join('')
      lines = lines.slice(blockLines)
      buffer.size -= text.length
      block = Buffer.from(text)
      return block
    },
    /** The output has accepted this many bytes of the block. */
    taken(bytes: number): void {
      block = block !== undefined && bytes < block.length ? block.subarray(bytes) : undefined
    },
    /** Another writer finishes the block in progress. */
    dropBlock(): void {
      block = undefined
    },
    /** Discards everything; returns the number of lines. */
    discard(): number {
      const lost = lines.length + (block === undefined ? 0 : blockLines)
      lines = []
      buffer.size = 0
      block = undefined
      return lost
    }
  }
  return buffer
}
