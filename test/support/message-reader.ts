// Reads requests from bytes by the gateway's own connection, without a socket, a timer or a turn of the event loop.
import { Http1Connection } from '../../gateway/http/http1/connection.ts'
import type { Waiting } from '../../gateway/http/outbox.ts'
import type { HttpRequest } from '../../gateway/http/request.ts'
import type { ConnectionHost, MessageFault } from '../../gateway/http/served-connection.ts'
import { DEFAULT_LIMITS } from '../../gateway/http/server.ts'
import { onThrown } from './thrown.ts'

export interface ReadRequest {
  readonly method: string
  readonly target: string
  /** `1.1` */
  readonly version: string
  /** `[name, value, …]` */
  readonly fields: readonly string[]
  /** Latin-1; of a request whose body did not arrive whole, what came of it. */
  body: string
  /** Whether the whole body came. */
  isComplete: boolean
  /** Answered by its head alone, with 400. */
  readonly isRefused: boolean
}

export interface ReadMessages {
  readonly requests: readonly ReadRequest[]
  /** What ended the reading; undefined: nothing, more could have followed. */
  readonly fault: MessageFault | 'malformed-body' | undefined
  /** How many requests had been read whenever a connection that had stopped reading went on. */
  readonly resumedAt: readonly number[]
}

const DEAF = { status: 204, reason: 'No Content', headers: ['date', ''] }
const REFUSED = { status: 400, reason: 'Bad Request', headers: ['date', ''] }

/** A socket that takes everything at once. */
class DeafSocket {
  readonly onResume: () => void
  written = ''
  writableLength = 0
  constructor(onResume: () => void) {
    this.onResume = onResume
  }
  write(data: string | Uint8Array) {
    this.written += typeof data === 'string' ? data : Buffer.from(data).toString('latin1')
    return true
  }
  cork() {}
  uncork() {}
  pause() {}
  resume() {
    this.onResume()
  }
  end() {}
  destroy() {}
  resetAndDestroy() {}
}

/** A connection whose clock and turns of the event loop are the test's. */
export const openConnection = (handler: ConnectionHost['handler'], onResume = (): void => undefined) => {
  const due: (() => void)[] = []
  const host: { now: number } & Omit<ConnectionHost, 'now'> = {
    limits: DEFAULT_LIMITS,
    isDraining: false,
    now: 0,
    handler,
    flushSoon: (waiting: Waiting) => due.push(() => waiting.flush()),
    read: () => undefined,
    goOnSoon: one => due.push(() => one.goOn())
  }
  const socket = new DeafSocket(onResume)
  const from = { peer: '', isTls: false, covers: undefined }
  const connection = new Http1Connection(
    socket as unknown as ConstructorParameters<typeof Http1Connection>[0],
    host,
    from
  )
  return { connection, host, socket, due }
}

/**
 * Reads messages from the pieces of one connection; each request is answered with 204 when its body has come.
 * @param onTurn told after each turn of the event loop what requests were read in it
 * @param refuses whether a request is answered with 400 as soon as its head has come; without its body, that is the end
 */
export const readMessages = (
  pieces: readonly (string | Buffer)[],
  refuses: (request: HttpRequest) => boolean = () => false,
  onTurn: (targets: string[]) => void = () => undefined
): ReadMessages => {
  const requests: ReadRequest[] = []
  let fault: ReadMessages['fault']
  const onRequest = (request: HttpRequest) => {
    const { method, target, versionMajor, versionMinor, fields } = request
    const isRefused = refuses(request)
    const version = `${versionMajor}.${versionMinor}`
    const read = { method, target, version, fields, body: '', isComplete: request.isComplete, isRefused }
    requests.push(read)
    if (isRefused) {
      if (!request.isComplete) request.response.keepAlive = false
      request.response.whole(REFUSED, '')
      return
    }
    request.owner = {
      onClosed() {},
      onThrown,
      onBodyFault() {
        fault = 'malformed-body'
        request.response.keepAlive = false
        request.response.whole(DEAF, '')
      }
    }
    request.read({
      onUpload(chunk) {
        read.body += chunk.toString('latin1')
      },
      onUploadEnd() {
        read.isComplete = true
        request.response.whole(DEAF, '')
      }
    })
  }
  const resumedAt: number[] = []
  const onFault = (_: unknown, kind: MessageFault) => {
    fault = kind
    return ''
  }
  const { connection, due } = openConnection({ onRequest, onFault }, () => resumedAt.push(requests.length))
  let seen = 0
  const endTurn = () => {
    if (requests.length > seen) onTurn(requests.slice(seen).map(({ target }) => target))
    seen = requests.length
  }
  for (const piece of pieces) {
    connection.take(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)
    endTurn()
    for (let next = due.shift(); next !== undefined; next = due.shift()) {
      next()
      endTurn()
    }
  }
  connection.onClose()
  return { requests, fault, resumedAt }
}
