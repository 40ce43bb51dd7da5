// Serves the embedded Postgres on a Unix socket; its clients share a single session, one whole statement or transaction at a time.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'
import type { Log } from '../values/log.ts'

const MAX_CONNECTIONS = 50

/**
 * @param path of the socket, which does not exist yet
 * @param onPanic the database has ended, and must not be used again, not even to close it
 */
export const startEmbeddedServer = async (
  database: PGlite,
  path: string,
  log: Pick<Log, 'warn'>,
  onPanic: (message: string) => void
) => {
  const clients = new Map<Socket, Promise<void>>()
  let isOver = false
  const end = (answer: Buffer) => {
    isOver = true
    server.close()
    for (const socket of clients.keys()) socket.destroy()
    onPanic(/\0M([^\0]*)/.exec(answer.toString())?.[1] ?? '')
  }
  const server = createServer(socket => {
    if (isOver) return socket.destroy()
    // A client may disconnect at any time.
    const served = serve(database, socket, end).catch(() => undefined)
    clients.set(socket, served)
    socket.once('close', () => clients.delete(socket))
  })
  server.maxConnections = MAX_CONNECTIONS
  // The directory may be shared, so no other user may connect, not even before `chmod` could follow.
  const mask = process.umask(0o177)
  server.listen(path)
  process.umask(mask)
  await once(server, 'listening')
  // A connection that cannot be accepted, e.g. for want of file descriptors, must not end the process: the server keeps listening.
  server.on('error', err => log.warn({ err }, 'the embedded Postgres could not accept a connection'))
  return {
    isOver: () => isOver,
    async close(): Promise<void> {
      server.close()
      for (const socket of clients.keys()) socket.destroy()
      await Promise.all(clients.values())
    }
  }
}

/** Ends with the connection. */
const serve = async (database: PGlite, socket: Socket, onPanic: (answer: Buffer) => void): Promise<void> => {
  const messages = messagesOf(socket)
  // `for await` would end the messages when a turn takes some of them.
  for (let next = await messages.next(); next.done !== true; next = await messages.next()) {
    const { value } = next
    await database.runExclusive(async () => {
      if (!socket.destroyed) await finish(database, socket, value, messages, onPanic)
    })
  }
}

/** Parse, Bind, Describe, Execute, Close and Flush: a statement ends only with Sync (protocol 3.0, extended query). */
const UNFINISHED: ReadonlySet<number> = new Set(Buffer.from('PBDECH'))
const SYNC = Buffer.from('S\0\0\0\x04')
const ROLLBACK = Buffer.from('Q\0\0\0\x0dROLLBACK\0')

/** The severity of an error with which Postgres ends (protocol 3.0, error fields), as it must where it cannot write its log. */
const PANIC = Buffer.from('\0VPANIC\0')

/** As no timer of Postgres runs here. Longer than `portaria move` waits for a statement of the other database. */
const IDLE_TRANSACTION_MS = 70_000

/** Keeps the session until the statement or transaction of the client has ended, and resets it if the client leaves before. */
const finish = async (
  database: PGlite,
  socket: Socket,
  first: Buffer,
  messages: Messages,
  onPanic: (answer: Buffer) => void
): Promise<void> => {
  const run = async (message: Buffer) => (await database.execProtocol(message, { throwOnError: false })).data
  try {
    for (let message = first; ; ) {
      // A copy, because the database writes its next answer to the same memory.
      const answer = Buffer.from(await run(message))
      socket.write(answer)
      // It would wait for its own locks at the next message, and all of this process with it.
      if (answer.includes(PANIC)) return onPanic(answer)
      if (!UNFINISHED.has(message[0] ?? 0) && !database.isInTransaction()) return
      // A command that was stopped (SIGTSTP) would keep all others waiting.
      const timer = setTimeout(() => socket.destroy(), IDLE_TRANSACTION_MS)
      const next = await messages.next().finally(() => clearTimeout(timer))
      if (next.done === true) break
      message = next.value
    }
  } catch {
    // Nothing shows how far it got.
    socket.destroy()
  }
  await run(SYNC)
  if (database.isInTransaction()) await run(ROLLBACK)
}

type Messages = AsyncGenerator<Buffer, void, undefined>

const VERSION_3 = 3 << 16
/** SSLRequest and GSSENCRequest (protocol 3.0, message formats), which are answered with N. */
const ENCRYPTION_REQUESTS: ReadonlySet<number> = new Set([80_877_103, 80_877_104])

/** Each is a type byte, which only the first one lacks, a length that counts itself, and a body (protocol 3.0, message formats). */
async function* messagesOf(socket: Socket): Messages {
  let bytes = Buffer.alloc(0)
  let typeBytes = 0
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk])
    while (bytes.length >= typeBytes + 4) {
      const size = typeBytes + bytes.readUInt32BE(typeBytes)
      if (bytes.length < size) break
      const message = bytes.subarray(0, size)
      bytes = bytes.subarray(size)
      const request = typeBytes === 0 ? message.readUInt32BE(4) : VERSION_3
      if (ENCRYPTION_REQUESTS.has(request)) socket.write('N')
      // A CancelRequest needs a process to signal.
      else if (request !== VERSION_3) return
      else {
        typeBytes = 1
        yield message
      }
    }
  }
}
