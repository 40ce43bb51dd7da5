// Opens connections to Postgres, to the first host that accepts writes, within a deadline.
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
