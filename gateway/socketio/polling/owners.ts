// Reaches the process that owns a polling session, whose id is in the sid: this one directly, the others over Redis.
import { GatewayError, Internal, Unavailable } from '../../errors.ts'
import { CallFailure } from '../../instances/calls.ts'
import type { Instances } from '../../instances/instances.ts'
import { noteFault } from '../../values/contain.ts'
import { type SocketIoSessions, unknownSid } from '../sessions.ts'
import { createOwner, type Owner } from './owner.ts'
import type { Probes } from './probes.ts'

type Method = keyof Owner
type Call = (request: object) => Promise<unknown>

/** Longer than any poll; a process that ends is noticed earlier. */
const ASK_MS = 2 * 60 * 60_000

interface Refusal {
  readonly refusal: Pick<GatewayError, 'code' | 'message' | 'statusCode' | 'reason' | 'headers'>
}

const isRefusal = (reply: unknown): reply is Refusal =>
  typeof reply === 'object' && reply !== null && 'refusal' in reply

const nameOf = (method: Method): string => `socketio.${method}`

export type Owners = ReturnType<typeof createOwners>

const OWNED = /^(.+)\.([0-9a-f]{8})$/

export const createOwners = (
  instances: Pick<Instances, 'id' | 'ask' | 'answer'> | undefined,
  sessions: SocketIoSessions,
  probes: Probes
) => {
  const ownerAt = (id: string): Owner =>
    instances === undefined || id === instances.id ? own : remoteOwner(instances, id, Object.keys(own) as Method[])
  const own = createOwner(sessions, probes, ownerAt)
  if (instances === undefined)
    return { id: '', give: (sid: string) => sid, read: (sid: string) => ({ sid, owner: own }) }
  for (const [name, method] of Object.entries(own) as [Method, Call][])
    instances.answer(nameOf(name), (request: never) => method(request).catch(plainRefusal))
  return {
    /** The id of this process; '' if it is alone. */
    id: instances.id,
    /** The sid for a client of a session that begins here. */
    give: (sid: string) => `${sid}.${instances.id}`,
    /** The upstream's sid, and who owns the session. Throws a refusal. */
    read(given: string) {
      const [, sid, id] = OWNED.exec(given) ?? []
      if (sid === undefined || id === undefined) throw unknownSid()
      return { sid, owner: ownerAt(id) }
    }
  }
}

const remoteOwner = (instances: Pick<Instances, 'ask'>, id: string, methods: readonly Method[]): Owner => {
  const call =
    (method: Method): Call =>
    async request => {
      const reply = await instances.ask(id, nameOf(method), request, ASK_MS).catch(refuseFailure)
      if (!isRefusal(reply)) return reply
      const { code, message, statusCode, reason, headers } = reply.refusal
      throw new GatewayError(code, message, statusCode, { ...(reason === undefined ? {} : { reason }), headers })
    }
  return Object.fromEntries(methods.map(method => [method, call(method)])) as unknown as Owner
}

/** A process that has ended takes its sessions with it; nothing may be allowed on a guess about one that cannot be asked. */
const refuseFailure = (cause: unknown): never => {
  if (cause instanceof CallFailure && cause.reason === 'gone') throw unknownSid()
  throw new Unavailable({ cause, reason: 'session-owner' })
}

const plainRefusal = (error: unknown): Refusal => {
  if (!(error instanceof GatewayError)) noteFault('socketio', error)
  const known = error instanceof GatewayError ? error : new Internal({ reason: 'socketio' })
  const { code, message, statusCode, reason, headers } = known
  return { refusal: { code, message, statusCode, reason, headers } }
}
