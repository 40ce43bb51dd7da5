// Reads from the response to an Engine.IO handshake which session it opened and how long its server waits.
import { readEnginePayload } from './engineio.ts'
import { isSid } from './engineio-request.ts'

interface Handshake {
  sid: string
  /** How long the server keeps a session that is not polled. */
  sessionMs: number
  pollMs: number
}

/** The open packet in a handshake response; undefined: there is none. */
export const readHandshake = (body: string): Handshake | undefined => {
  const [first] = readEnginePayload(body) ?? []
  if (first?.type !== '0') return undefined
  try {
    const open: unknown = JSON.parse(first.text.slice(1))
    if (typeof open !== 'object' || open === null) return undefined
    const { sid, pingInterval, pingTimeout } = open as Record<string, unknown>
    if (!isSid(sid)) return undefined
    const silenceMs =
      (isDuration(pingInterval) ? pingInterval : 25_000) + (isDuration(pingTimeout) ? pingTimeout : 20_000)
    return { sid, sessionMs: silenceMs + 5000, pollMs: silenceMs }
  } catch {
    return undefined
  }
}

const isDuration = (value: unknown): value is number => typeof value === 'number' && value > 0 && value < 3_600_000
