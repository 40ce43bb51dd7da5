// Keeps a bounded number of connections to Postgres, and gives each back to the next that waits for one.
import type pg from 'pg'
import { type Connect, type DatabaseConnection, tooLate } from './postgres-connections.ts'

export type ConnectionPool = ReturnType<typeof createConnectionPool>

interface PoolOptions {
  connect: Connect
  size: number
  acquireMs: number
  /** A connection was lost while nothing used it. */
  onIdleLoss(error: Error): void
}

interface Waiting {
  resolve(connection: DatabaseConnection): void
  reject(error: unknown): void
  readonly timer: NodeJS.Timeout
}

/** An unused connection is closed after this time. */
const IDLE_MS = 30_000

export const createConnectionPool = ({ connect, size, acquireMs, onIdleLoss }: PoolOptions) => {
  const open = new Map<pg.Client, DatabaseConnection>()
  /** The one used last is used next, so that the others can be closed. */
  const idle: { readonly connection: DatabaseConnection; readonly timer: NodeJS.Timeout }[] = []
  const waiting: Waiting[] = []
  let opening = 0
  let isClosed = false

  /** @param error why the connection is unusable; without one, it is ended as the protocol says */
  const drop = (connection: DatabaseConnection, error?: Error) => {
    open.delete(connection.client)
    if (error === undefined) connection.client.end().catch(() => undefined)
    else connection.destroy(error)
    openMore()
  }

  const takeIdle = (connection: DatabaseConnection) => {
    const index = idle.findIndex(each => each.connection === connection)
    if (index === -1) return false
    clearTimeout(idle[index]?.timer)
    idle.splice(index, 1)
    return true
  }

  const rest = (connection: DatabaseConnection) => {
    const timer = setTimeout(() => {
      if (takeIdle(connection)) drop(connection)
    }, IDLE_MS)
    timer.unref()
    idle.push({ connection, timer })
  }

  const hand = (connection: DatabaseConnection) => {
    const next = waiting.shift()
    if (next === undefined) return rest(connection)
    clearTimeout(next.timer)
    next.resolve(connection)
  }

  const onEnd = (connection: DatabaseConnection) => {
    if (!takeIdle(connection)) return
    const error = new Error('Connection terminated by the server')
    drop(connection, error)
    onIdleLoss(error)
  }

  const openOne = async () => {
    opening++
    try {
      const connection = await connect(acquireMs)
      opening--
      if (isClosed) return connection.destroy(closed())
      open.set(connection.client, connection)
      connection.client.once('end', () => onEnd(connection))
      hand(connection)
    } catch (error) {
      opening--
      const next = waiting.shift()
      clearTimeout(next?.timer)
      next?.reject(error)
      openMore()
    }
  }

  const openMore = () => {
    while (!isClosed && opening < waiting.length && open.size + opening < size) void openOne()
  }

  return {
    /** Settles within the time that a connection may take to arrive. */
    acquire: () =>
      new Promise<DatabaseConnection>((resolve, reject) => {
        if (isClosed) return reject(closed())
        const latest = idle.at(-1)?.connection
        if (latest !== undefined && takeIdle(latest)) return resolve(latest)
        const timer = setTimeout(() => {
          waiting.splice(waiting.indexOf(entry), 1)
          reject(tooLate())
        }, acquireMs)
        const entry = { resolve, reject, timer }
        waiting.push(entry)
        openMore()
      }),
    /** @param error why the connection must not be used again */
    release(connection: DatabaseConnection, error?: Error) {
      if (!open.has(connection.client)) return
      if (error !== undefined || connection.isOver()) drop(connection, error ?? closed())
      else hand(connection)
    },
    /** The connection of a client that this pool has opened. */
    connectionOf: (client: pg.Client) => open.get(client),
    /** Ends every connection, with whatever it is doing. */
    close() {
      isClosed = true
      for (const { connection, timer } of idle.splice(0)) {
        clearTimeout(timer)
        drop(connection)
      }
      for (const { timer, reject } of waiting.splice(0)) {
        clearTimeout(timer)
        reject(closed())
      }
      for (const connection of open.values()) connection.destroy(closed())
      open.clear()
    }
  }
}

const closed = () => new Error('Connection terminated: the pool is closed')
