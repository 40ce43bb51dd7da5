// Receives the notifications of the embedded Postgres, whichever connection they were sent to.
import type { PGlite } from '@electric-sql/pglite'

/** The only channel of this database: see access-changes.ts. */
export const ACCESS_CHANNEL = 'portaria_access'

export interface NotificationSource {
  /** Calls back for each NOTIFY on ACCESS_CHANNEL; returns a function that stops it. */
  subscribe(onPayload: (payload: string) => void): () => void
}

/**
 * PGlite is one session: all clients of its socket share it, and a NotificationResponse goes to the client that sent the last
 * message. The socket server uses the returned database, which also reads these responses.
 */
export const overhearNotifications = (postgres: PGlite): { postgres: PGlite; notifications: NotificationSource } => {
  const listeners = new Set<(payload: string) => void>()
  const scan = createScanner((channel, payload) => {
    if (channel === ACCESS_CHANNEL) for (const listener of listeners) listener(payload)
  })
  const overheard = new Proxy(postgres, {
    get(target, property) {
      if (property === 'execProtocolRawStream') return execute
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    }
  })
  const execute: PGlite['execProtocolRawStream'] = (message, options) =>
    postgres.execProtocolRawStream(message, {
      ...options,
      onRawData: data => {
        scan(data)
        options.onRawData(data)
      }
    })
  const subscribe: NotificationSource['subscribe'] = listener => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  return { postgres: overheard, notifications: { subscribe } }
}

const NOTIFICATION_RESPONSE = 0x41
const HEADER_BYTES = 5

/** Messages are a type byte, a length that counts itself, and a body (PostgreSQL protocol 3.0, message formats). */
const createScanner = (onNotification: (channel: string, payload: string) => void) => {
  let rest = Buffer.alloc(0)
  let skip = 0
  return (data: Uint8Array) => {
    let bytes = Buffer.concat([rest, data])
    rest = Buffer.alloc(0)
    for (;;) {
      const skipped = Math.min(skip, bytes.length)
      skip -= skipped
      bytes = bytes.subarray(skipped)
      if (bytes.length < HEADER_BYTES) break
      const size = 1 + bytes.readUInt32BE(1)
      if (bytes[0] !== NOTIFICATION_RESPONSE) skip = size
      else if (bytes.length < size) break
      else {
        // Body: process id, then channel and payload, each ended by NUL.
        const [channel = '', payload = ''] = bytes.toString('utf8', HEADER_BYTES + 4, size).split('\0')
        onNotification(channel, payload)
        skip = size
      }
    }
    rest = Buffer.from(bytes)
  }
}
