// Opens connections to Postgres, to the first host that accepts writes, and keeps a bounded number of them for those who wait.
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
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

export type Connect = (timeoutMs: number, signal?: AbortSignal) => Promise<DatabaseConnection>

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
  return async (timeoutMs, signal) => {
    const deadline = performance.now() + timeoutMs
    const failures: unknown[] = []
    const order = addresses.map((_, n) => (preferred + n) % addresses.length)
    for (const [n, index] of order.entries()) {
      signal?.throwIfAborted()
      const address = addresses[index]
      if (address === undefined) continue
      const shareMs = Math.max(1, (deadline - performance.now()) / (addresses.length - n))
      const config = { ...address, application_name: applicationName }
      try {
        const connection = await open(config, shareMs, { prepare, mustWrite: addresses.length > 1, signal })
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
  /** Aborted: the connection is no longer wanted. */
  readonly signal: AbortSignal | undefined
}

const open = async (
  config: pg.ClientConfig,
  timeoutMs: number,
  { prepare, mustWrite, signal }: Preparation
): Promise<DatabaseConnection> => {
  const socket = new Socket()
  const client = new pg.Client({ ...config, keepAlive: true, stream: () => socket })
  containReading(socket)
  const wire: pg.Connection = Reflect.get(client, 'connection')
  wire.once('sslconnect', () => containReading(wire.stream))
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
  const onAbort = () => destroy(closed())
  signal?.addEventListener('abort', onAbort)
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
    signal?.removeEventListener('abort', onAbort)
  }
}

/** The driver throws where it reads what it does not know, such as GSSAPI for the login: that ends the connection. */
const containReading = (stream: Duplex): void => {
  const emit = stream.emit
  stream.emit = (...event: unknown[]): boolean => {
    try {
      return Reflect.apply(emit, stream, event)
    } catch (error) {
      if (event[0] !== 'data') throw error
      stream.destroy(Object.assign(new Error('unreadable', { cause: error }), { code: 'EPROTO' }))
      return true
    }
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

/** An unused connection is closed after this time. */
const IDLE_MS = 30_000

export const createConnectionPool = ({ connect, size, acquireMs, onIdleLoss }: PoolOptions) => {
  const open = new Map<pg.Client, DatabaseConnection>()
  /** The one used last is used next, so that the others can be closed. */
  const idle = new Map<DatabaseConnection, NodeJS.Timeout>()
  const waiting = new Set<PromiseWithResolvers<DatabaseConnection>>()
  const closing = new AbortController()
  const { signal } = closing
  let opening = 0

  const nextWaiting = () => {
    const [next] = waiting
    if (next !== undefined) waiting.delete(next)
    return next
  }

  const takeIdle = (connection: DatabaseConnection) => {
    clearTimeout(idle.get(connection))
    return idle.delete(connection)
  }

  const endIdle = (connection: DatabaseConnection) => {
    takeIdle(connection)
    open.delete(connection.client)
    connection.client.end().catch(() => undefined)
  }

  const hand = (connection: DatabaseConnection) => {
    const next = nextWaiting()
    if (next !== undefined) next.resolve(connection)
    else idle.set(connection, setTimeout(endIdle, IDLE_MS, connection).unref())
  }

  const openOne = async () => {
    opening++
    try {
      const connection = await connect(acquireMs, signal)
      if (signal.aborted) return connection.destroy(closed())
      open.set(connection.client, connection)
      connection.client.once('end', () => {
        open.delete(connection.client)
        if (takeIdle(connection)) onIdleLoss(new Error('Connection terminated by the server'))
      })
      hand(connection)
    } catch (error) {
      nextWaiting()?.reject(error)
    }
    opening--
    openMore()
  }

  const openMore = () => {
    while (!signal.aborted && opening < waiting.size && open.size + opening < size) void openOne()
  }

  return {
    /** Settles within the time that a connection may take to arrive. */
    async acquire(): Promise<pg.Client> {
      if (signal.aborted) throw closed()
      const latest = [...idle.keys()].at(-1)
      if (latest !== undefined && takeIdle(latest)) return latest.client
      const arriving = Promise.withResolvers<DatabaseConnection>()
      const timer = setTimeout(() => {
        waiting.delete(arriving)
        arriving.reject(tooLate())
      }, acquireMs)
      waiting.add(arriving)
      openMore()
      return arriving.promise.then(({ client }) => client).finally(() => clearTimeout(timer))
    },
    /** @param error why the connection must not be used again */
    release(client: pg.Client, error?: Error) {
      const connection = open.get(client)
      if (connection !== undefined && error === undefined && !signal.aborted && !connection.isOver()) hand(connection)
      else {
        open.delete(client)
        connection?.destroy(error ?? closed())
        openMore()
      }
    },
    /** The connection of a client that this pool has opened. */
    connectionOf: (client: pg.Client) => open.get(client),
    /** Ends every connection, with whatever it is doing. */
    close(error = closed()) {
      closing.abort()
      for (const connection of idle.keys()) endIdle(connection)
      for (const { reject } of waiting) reject(error)
      for (const connection of open.values()) connection.destroy(error)
    }
  }
}

const closed = () => new Error('Connection terminated: the pool is closed')
