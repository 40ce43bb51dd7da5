// Opens connections to Postgres, to the first host that accepts writes, and keeps a bounded number of them for those who wait.
import { Socket } from 'node:net'
import pg from 'pg'

/** How to reach one server; several are tried in turn. */
type PostgresAddress =
  | { readonly connectionString: string }
  | { readonly host: string; readonly port: number; readonly user: string; readonly database: string }

export interface DatabaseConnection {
  readonly client: pg.Client
  /** A pooler answers for the server: settings of the session and LISTEN may end up at any of its connections. */
  readonly isPooled: boolean
  /** It has ended, or is about to. */
  readonly isOver: () => boolean
  /** Ends the connection at once; whatever it is doing fails with `error`. */
  readonly destroy: (error: Error) => void
}

export type Connect = (timeoutMs: number) => Promise<DatabaseConnection>

/**
 * The host that was used last is tried first. With several hosts, one that does not accept writes is never used.
 * @param prepare statements for a new connection that no pooler has answered
 */
export const createConnector = (
  addresses: readonly PostgresAddress[],
  applicationName: string,
  prepare = ''
): Connect => {
  let preferred = 0
  return async timeoutMs => {
    const deadline = performance.now() + timeoutMs
    const failures: unknown[] = []
    const order = addresses.map((_, n) => (preferred + n) % addresses.length)
    for (const [n, index] of order.entries()) {
      const address = addresses[index]
      if (address === undefined) continue
      const shareMs = Math.max(1, (deadline - performance.now()) / (addresses.length - n))
      const config = { ...address, application_name: applicationName }
      try {
        const connection = await open(config, shareMs, { prepare, mustWrite: addresses.length > 1 })
        preferred = index
        return connection
      } catch (error) {
        failures.push(error)
      }
    }
    throw failures.length === 1 ? failures[0] : new AggregateError(failures, 'no host of the database accepts writes')
  }
}

interface Preparation {
  readonly prepare: string
  readonly mustWrite: boolean
}

const open = async (
  config: pg.ClientConfig,
  timeoutMs: number,
  { prepare, mustWrite }: Preparation
): Promise<DatabaseConnection> => {
  const socket = new Socket()
  const client = new pg.Client({ ...config, keepAlive: true, stream: () => socket })
  // The query that it ends fails with the same error.
  client.on('error', () => undefined)
  let isOver = false
  client.once('end', () => {
    isOver = true
  })
  const destroy = (error: Error) => {
    isOver = true
    socket.destroy(error)
  }
  const timer = setTimeout(() => destroy(tooLate()), timeoutMs)
  try {
    await client.connect()
    const { rows } = await client.query<{ pid: number; read_only: string }>(WHO_ANSWERS)
    if (mustWrite && rows[0]?.read_only !== 'off') throw readOnly()
    // A pooler makes up the process id that it gives to its clients (PostgreSQL protocol 3.0, BackendKeyData), and so does the
    // embedded Postgres.
    const isPooled = 'connectionString' in config && rows[0]?.pid !== Reflect.get(client, 'processID')
    if (prepare !== '' && !isPooled) await client.query(prepare)
    return { client, isPooled, isOver: () => isOver, destroy }
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

const WHO_ANSWERS = "SELECT pg_backend_pid() AS pid, current_setting('transaction_read_only') AS read_only"

/** As Postgres refuses a write there (SQLSTATE 25006). */
const readOnly = () => Object.assign(new Error('the database is read-only'), { code: '25006' })

export const tooLate = () => Object.assign(new Error('the database took too long'), { code: 'ETIMEDOUT' })

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
