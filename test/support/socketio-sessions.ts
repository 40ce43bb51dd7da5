// Holds sessions of Socket.IO without a gateway around them: their store is the test's, and their clock is stopped.
import type { Test } from 'tap'
import { type GatewayError, Unauthenticated } from '../../gateway/errors.ts'
import { createOpenStreams } from '../../gateway/forward/open-streams.ts'
import type { EngineSession, EngineSessionSource, SocketIoForwarding } from '../../gateway/socketio/engine-session.ts'
import { createEngineSessions } from '../../gateway/socketio/engine-sessions.ts'
import { createRecoveryIds } from '../../gateway/socketio/recovery-ids.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { quiet } from './quiet.ts'
import { person, routeAt, targetAt, upstreamAt } from './routes.ts'

const START = 1_800_000_000_000
/** In `/b`, clients may send nothing. */
const NAMESPACES = ['/a', '/b'].map(name => ({
  name,
  pattern: undefined,
  roles: undefined,
  events: name === '/b' ? [] : undefined
}))
const POLL = 'GET /socket.io/ HTTP/1.1\r\nhost: x\r\n\r\n'

export const holdSessions = (t: Pick<Test, 'teardown'>) => {
  const clock = { now: START }
  const now = () => clock.now
  const revocations = createRevocations(now)
  const streams = createOpenStreams({
    instance: '0a1b2c3d',
    revocations,
    freshAccess: async () => new Map(),
    checkAgain: ({ route }) => route,
    now
  })
  t.teardown(() => streams.close())
  revocations.onChange(streams.onRevocationsChanged)
  const refused: GatewayError[] = []
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  // What carries packets to an upstream is not needed here.
  const forwarding = {
    upstreams,
    streams,
    recoveryIds: createRecoveryIds(['secret']),
    responseContext: () => createResponseContext({ has: () => false })(source.route, source.upstream, 'x'),
    now,
    log: quiet,
    countRefusedEvent: () => undefined,
    countRefusal: () => undefined,
    routeNow: () => source.route,
    check: () => undefined,
    pollHeaders: () => [],
    identify(token: string) {
      if (!token.startsWith('token-')) throw new Unauthenticated()
      const life = { issuedAt: START / 1000, expiresAt: START / 1000 + 600, authenticatedAt: START / 1000 }
      return { user: person(), subject: '7', tokenId: token, version: 0, kind: 'login', ...life }
    }
  } as unknown as SocketIoForwarding
  const engineSessions = createEngineSessions(forwarding)
  const socketio = { maxMessageBytes: 1e6, messagesPerSecond: 10_000, namespaces: NAMESPACES }
  const upstream = upstreamAt(1)
  const source: EngineSessionSource = {
    route: { ...routeAt('/socket.io/', upstream), socketio },
    upstream,
    target: targetAt(1),
    path: '/socket.io/',
    host: 'gw.example',
    hostName: 'gw.example',
    requestId: 'r',
    ip: '192.0.2.1',
    ipKey: '192.0.2.1'
  }
  const enter = ({ gate }: EngineSession, name: string) => {
    gate.fromClient({ type: '4', text: `40${name},{"token":"token-${name}"}` })
    gate.fromUpstream({ type: '4', text: `40${name},{"sid":"s"}` })
  }
  /** A session with an open namespace for each name, each by a token of its own. */
  const open = (...names: string[]) => {
    const told: string[] = []
    const engineSession = engineSessions.create(source, () => told.push('over'))
    engineSessions.enter(engineSession)
    engineSession.carryBy('websocket', {
      toClient: packets => told.push(...packets),
      toUpstream: packets => told.push(...packets.map(packet => `up ${packet}`)),
      close: code => told.push(`close ${code}`),
      bytes: () => 0
    })
    for (const name of names) enter(engineSession, name)
    return { engineSession, told }
  }
  /** A session that is polled, for a second after each request. */
  const hold = (changes: Partial<EngineSessionSource> = {}, sid = 'sid') => {
    const held = engineSessions.hold({ ...source, ...changes }, { sid, fields: [], sessionMs: 1000, pollMs: 1000 })
    const answers: string[] = []
    const ask = () => {
      held.polling.get(POLL).then(
        ({ text }) => answers.push(text),
        refusal => refused.push(refusal)
      )
    }
    return { ...held, answers, ask }
  }
  const revoke = (name: string) =>
    revocations.learn({ tokens: [{ jti: `token-${name}`, expiresAt: START / 1000 + 600 }] })
  return { clock, streams, forwarding, refused, engineSessions, source, open, enter, hold, revoke }
}
