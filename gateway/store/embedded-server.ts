// Serves the embedded Postgres on a Unix socket; its clients share a single session, one whole statement or transaction at a time.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'
import { PGLiteSocketHandler } from '@electric-sql/pglite-socket'
import type { Log } from '../values/log.ts'

const MAX_CONNECTIONS = 50

/** @param path of the socket, which does not exist yet */
export const startEmbeddedServer = async (database: PGlite, path: string, log: Pick<Log, 'warn'>) => {
  const turns = createTurns(database)
  const clients = new Map<PGLiteSocketHandler, Socket>()
  const server = createServer(socket => {
    // The library requires its own class, but calls only what Turns provides.
    const handler = new PGLiteSocketHandler({ queryQueue: turns as never, closeOnDetach: true })
    clients.set(handler, socket)
    for (const end of ['close', 'error']) handler.addEventListener(end, () => clients.delete(handler))
    void handler.attach(socket)
  })
  server.maxConnections = MAX_CONNECTIONS
  await once(server.listen(path), 'listening')
  // A connection that cannot be accepted, e.g. for want of file descriptors, must not end the process: the server keeps listening.
  server.on('error', err => log.warn({ err }, 'the embedded Postgres could not accept a connection'))
  return {
    async close(): Promise<void> {
      const closed = new Promise(resolve => server.close(resolve))
      for (const [handler, socket] of clients) {
        await handler.detach()
        // A detached handler leaves a socket that is half closed and unread, and therefore stays open.
        socket.destroy()
      }
      await closed
    }
  }
}

/** The methods that a handler of pglite-socket calls on its queue; names and signatures are the library's. */
interface Turns {
  /** Resolves to the number of bytes in the response. */
  enqueue(client: number, message: Uint8Array, onData: (data: Uint8Array) => void): Promise<number>
  clearQueueForHandler(client: number): void
  clearTransactionIfNeeded(client: number): Promise<void>
}

interface Turn {
  readonly client: number
  readonly message: Uint8Array
  readonly onData: (data: Uint8Array) => void
  readonly resolve: (size: number) => void
  readonly reject: (error: unknown) => void
}

/** Parse, Bind, Describe, Execute, Close and Flush: a statement ends only with Sync (protocol 3.0, extended query). */
const UNFINISHED: ReadonlySet<number> = new Set(Array.from('PBDECH', type => type.charCodeAt(0)))
const SYNC = Uint8Array.of('S'.charCodeAt(0), 0, 0, 0, 4)

/**
 * The library's own queue lets another client in between the messages of a statement whose client disconnects, so its
 * responses go astray. Here the session stays with a client until its Sync, and is reset if it disconnects before that.
 */
const createTurns = (database: PGlite): Turns => {
  const waiting: Turn[] = []
  /** The client whose statement or transaction is not finished. */
  let owner: number | undefined
  let current: { readonly client: number; readonly done: Promise<void> } | undefined

  const say = (message: Uint8Array, onRawData: (data: Uint8Array) => void) =>
    database.runExclusive(() => database.execProtocolRawStream(message, { onRawData }))

  const run = async ({ client, message, onData, resolve, reject }: Turn): Promise<void> => {
    let size = 0
    try {
      await say(message, data => {
        size += data.length
        onData(data)
      })
      owner = UNFINISHED.has(message[0] ?? 0) || database.isInTransaction() ? client : undefined
      resolve(size)
    } catch (error) {
      // Nothing shows how far it got: its handler is removed, and the session is reset.
      owner = client
      reject(error)
    }
  }

  const work = async (): Promise<void> => {
    while (current === undefined) {
      const index = owner === undefined ? 0 : waiting.findIndex(turn => turn.client === owner)
      const [turn] = index === -1 ? [] : waiting.splice(index, 1)
      if (turn === undefined) return
      const done = run(turn)
      current = { client: turn.client, done }
      await done
      current = undefined
    }
  }

  return {
    enqueue: (client, message, onData) =>
      new Promise((resolve, reject) => {
        waiting.push({ client, message, onData, resolve, reject })
        void work()
      }),
    clearQueueForHandler(client) {
      for (const turn of waiting.filter(each => each.client === client)) {
        waiting.splice(waiting.indexOf(turn), 1)
        turn.reject(new Error('the client disconnected'))
      }
    },
    async clearTransactionIfNeeded(client) {
      if (current?.client === client) await current.done
      if (owner !== client) return
      await say(SYNC, () => undefined)
      if (database.isInTransaction()) await database.exec('ROLLBACK')
      owner = undefined
      void work()
    }
  }
}
