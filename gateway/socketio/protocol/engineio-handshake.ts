// Reads both halves of an Engine.IO 4 handshake: the query of a request, and the session that the response opens.
import { decode } from '../../routes/canonical-path.ts'
import { readEnginePayload } from './engineio.ts'
import { readPayload } from './packets.ts'

const MAX_PARAMETERS = 32
const SID = /^[A-Za-z0-9._~-]{1,160}$/
// JSONP: a response that any page could run as a script.
const JSONP = 'j'
const OURS = new Set(['EIO', 'transport', 'sid', 't', 'b64'])

/** Reads a query (with its `?`); undefined: not well formed. Names are decoded, values are not. Without `sid` it is a handshake. */
export const readEngineQuery = (query: string) => {
  const pairs = query.slice(1).split('&')
  if (pairs.length > MAX_PARAMETERS) return undefined
  const values = new Map<string, string>()
  for (const pair of pairs) {
    const at = pair.indexOf('=')
    const name = decode((at === -1 ? pair : pair.slice(0, at)).replaceAll('+', ' '))
    if (name === undefined || name === JSONP) return undefined
    if (!OURS.has(name)) continue
    // Each once, and as every client writes it, so that no two parsers can differ.
    if (values.has(name) || at === -1 || pair.slice(0, at) !== name) return undefined
    values.set(name, pair.slice(at + 1))
  }
  const transport = values.get('transport')
  const sid = values.get('sid')
  if (values.get('EIO') !== '4' || (transport !== 'polling' && transport !== 'websocket')) return undefined
  // Clients without binary XMLHttpRequest say so; in revision 4, polling uses Base64 in any case.
  if (values.get('b64') !== undefined && values.get('b64') !== '1') return undefined
  return sid === undefined || SID.test(sid) ? ({ transport, sid } as const) : undefined
}

/** The same query with another session id. */
export const queryWithSid = (query: string, sid: string): string =>
  query.replace(/(^\?|&)sid=[^&]*/, (_, before: string) => `${before}sid=${sid}`)

/** The open packet in a handshake response; undefined: there is none. */
export const readHandshake = (body: string) => {
  const [first] = readEnginePayload(body) ?? []
  if (first?.type !== '0') return undefined
  const { sid, pingInterval, pingTimeout } = readPayload(first.text.slice(1)) ?? {}
  if (typeof sid !== 'string' || !SID.test(sid)) return undefined
  const pollMs = durationOr(25_000, pingInterval) + durationOr(20_000, pingTimeout)
  /** `sessionMs`: how long the server keeps a session that is not polled. `open`: the packet, without those that follow it. */
  return { sid, sessionMs: pollMs + 5000, pollMs, open: first.text }
}

const durationOr = (usual: number, value: unknown): number =>
  typeof value === 'number' && value > 0 && value < 3_600_000 ? value : usual

/** The same open packet with another session id, and no more allowed for a POST of several packets than the gateway takes. */
export const openForClient = (open: string, sid: string, maxBytes: number): string => {
  const values = JSON.parse(open.slice(1)) as { maxPayload?: unknown }
  const { maxPayload } = values
  const changed = typeof maxPayload === 'number' ? { sid, maxPayload: Math.min(maxPayload, maxBytes) } : { sid }
  return `0${JSON.stringify({ ...values, ...changed })}`
}
