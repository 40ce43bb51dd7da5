// Does what clients of the soak do, over and over: each kind of exchange once, checked by the statuses that are right for it.
import { randomUUID } from 'node:crypto'
import http from 'node:http'
import { connect, constants } from 'node:http2'
import https from 'node:https'
import { io } from 'socket.io-client'
import { WebSocket } from 'ws'
import { signToken } from '../../test/support/signed-tokens.ts'
import { TEST_SECRET } from '../../test/support/test-secret.ts'
import { moveBody } from './bodies.ts'

export interface Place {
  readonly name: string
  readonly port: number
  readonly isTls: boolean
}

/** What became of an exchange: a status, `right` for a body, `aborted`, or `unanswered` or `wrong` and why. */
export type Outcome = number | 'right' | 'aborted' | `unanswered: ${string}` | `wrong: ${string}`

export interface Exchange {
  readonly name: string
  run(place: Place): Promise<Outcome | { readonly outcome: Outcome; readonly detail: string }>
  readonly right: readonly Outcome[]
  /** Right as well while something is broken, and shortly after. */
  readonly excused: readonly Outcome[]
  /** Until the next; undefined: as for the others. */
  readonly pauseMs?: number
}

/** Nothing is without an answer for longer, whatever is broken. */
const ANSWERED_S = 20
const LARGE = Buffer.alloc(700_000, 'y')
/** While a backend or a store is away. */
const AWAY: readonly Outcome[] = [502, 503, 504]
const BROKEN: readonly Outcome[] = [...AWAY, 'aborted']

interface Asked {
  readonly path: string
  readonly method?: string
  readonly token?: string
}

/**
 * The first outcome that `start` settles. Without an answer it is `unanswered` after so many of this process's own
 * seconds: those in which it was held up itself do not count.
 *
 * @param start returns what ends the exchange
 * @param reached how far it has come
 */
const outcomeOf = (
  start: (settle: (outcome: Outcome) => void) => () => unknown,
  reached = () => ''
): Promise<Outcome> =>
  new Promise(resolve => {
    let seconds = 0
    const deadline = setInterval(() => {
      if (++seconds === ANSWERED_S) settle(`unanswered: nothing for ${ANSWERED_S} s${reached()}`)
    }, 1000)
    const settle = (outcome: Outcome) => {
      clearInterval(deadline)
      resolve(outcome)
      end()
    }
    const end = start(settle)
  })

const ask = ({ port, isTls }: Place, { path, method = 'GET', token }: Asked): Promise<Outcome> =>
  outcomeOf(settle => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const options = { host: '127.0.0.1', port, path, method, headers, rejectUnauthorized: false, agent: false }
    const request = (isTls ? https : http).request(options)
    request.on('response', answer => {
      answer.resume()
      answer.on('end', () => settle(answer.statusCode ?? 0))
      answer.on('error', () => settle('aborted'))
    })
    // The connection broke before an answer: that is none.
    request.on('error', (error: NodeJS.ErrnoException) => settle(`unanswered: ${error.code ?? error.message}`))
    request.end()
    return () => request.destroy()
  })

/** 101 and an echo, a refusal's status, or nothing. */
const echo = ({ port, isTls }: Place, token: string): Promise<Outcome> =>
  outcomeOf(settle => {
    const socket = new WebSocket(`${isTls ? 'wss' : 'ws'}://127.0.0.1:${port}/ws`, {
      headers: { authorization: `Bearer ${token}` },
      rejectUnauthorized: false
    })
    socket.on('unexpected-response', (_request, answer) => settle(answer.statusCode ?? 0))
    socket.on('open', () => socket.send('hello'))
    socket.on('message', () => settle(101))
    socket.on('close', () => settle('aborted'))
    socket.on('error', () => settle('aborted'))
    return () => socket.terminate()
  })

const converse = ({ port, isTls }: Place, token: string): Promise<Outcome> => {
  const reached: string[] = []
  return outcomeOf(
    settle => {
      const client = io(`${isTls ? 'https' : 'http'}://127.0.0.1:${port}/chat`, {
        auth: { token },
        extraHeaders: { authorization: `Bearer ${token}` },
        forceNew: true,
        reconnection: false,
        timeout: 2000 * ANSWERED_S,
        rejectUnauthorized: false
      } as Parameters<typeof io>[1])
      client.io.engine.on('packet', ({ type, data }) => reached.push(`got ${type} ${data ?? ''}`.slice(0, 40)))
      client.io.engine.on('packetCreate', ({ type, data }) => reached.push(`gave ${type} ${data ?? ''}`.slice(0, 40)))
      client.io.engine.on('upgrade', () => reached.push('upgraded'))
      client.on('connect', () => client.emit('say', 'hello', () => settle(200)))
      client.on('connect_error', () => settle('aborted'))
      client.on('disconnect', () => settle('aborted'))
      return () => client.disconnect()
    },
    () => `, last ${reached.slice(-12).join(', ')}`
  )
}

/** Four streams of one HTTP/2 connection: the first outcome that is not 200. Without TLS, the gateway has no HTTP/2. */
const multiplex = async (place: Place, token: string): Promise<Outcome> => {
  if (!place.isTls) return ask(place, { path: '/app/x', token })
  const session = connect(`https://127.0.0.1:${place.port}`, { rejectUnauthorized: false })
  session.on('error', () => undefined)
  const outcomes = await Promise.all(
    [{ path: '/app/x' }, { path: '/app/large' }, { path: '/app/x', body: LARGE }, { path: '/app/x' }].map(
      ({ path, body }) =>
        outcomeOf(settle => {
          const fields = { ':path': path, ':method': body === undefined ? 'GET' : 'POST' }
          const stream = session.request({ ...fields, authorization: `Bearer ${token}` })
          let status: Outcome = 'aborted'
          stream.on('response', head => {
            status = head[':status'] ?? 'aborted'
          })
          stream.on('error', () => undefined)
          // node:http2 may never close a stream whose response ended, with RST_STREAM, before all of its body was sent.
          const isWhole = () => !stream.aborted && stream.rstCode === constants.NGHTTP2_NO_ERROR
          stream.on('end', () => isWhole() && settle(status))
          stream.on('close', () => settle(isWhole() ? status : 'aborted'))
          stream.resume().end(body)
          return () => undefined
        })
    )
  )
  session.destroy()
  return outcomes.find(outcome => outcome !== 200) ?? 200
}

/** A token that is used, ended by logout, and then refused. */
const revoke = async (place: Place): Promise<Outcome> => {
  const token = await signToken(TEST_SECRET, {}, { jti: randomUUID() })
  const before = await ask(place, { path: '/app/x', token })
  const ended = await ask(place, { path: '/auth/logout', method: 'POST', token })
  if (before !== 200 || typeof ended !== 'number' || ended >= 300) return before === 200 ? ended : before
  return ask(place, { path: '/app/x', token })
}

export const createExchanges = async (): Promise<Exchange[]> => {
  const token = await signToken(TEST_SECRET, {}, { exp: Math.floor(Date.now() / 1000) + 80_000 })
  return [
    { name: 'open', right: [200], excused: AWAY, run: place => ask(place, { path: '/open/x' }) },
    { name: 'known', right: [200], excused: AWAY, run: place => ask(place, { path: '/app/x', token }) },
    { name: 'anonymous', right: [401], excused: [], run: place => ask(place, { path: '/app/x' }) },
    { name: 'no role', right: [403], excused: [], run: place => ask(place, { path: '/admins/x', token }) },
    { name: 'body', right: ['right'], excused: BROKEN, run: moveBody },
    { name: 'body', right: ['right'], excused: BROKEN, run: moveBody },
    { name: 'websocket', right: [101], excused: BROKEN, run: place => echo(place, token) },
    { name: 'socket.io', right: [200], excused: BROKEN, run: place => converse(place, token) },
    { name: 'http2', right: [200], excused: BROKEN, run: place => multiplex(place, token) },
    // A store that is away may keep a logout from being written: it is then refused, and the token lives.
    // Each brings a token of its own, which is remembered within bounds: more of them would look like a leak.
    { name: 'revocation', right: [401], excused: AWAY, run: revoke, pauseMs: 3000 }
  ]
}
