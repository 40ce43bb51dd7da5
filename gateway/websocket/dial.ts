// Requests a WebSocket upgrade from an upstream on a new socket, and reports whether it was accepted, refused or impossible.
import type { OnReadOpts, Socket } from 'node:net'
import { readMemory } from '../http/outbox.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { dial } from '../upstream/dial.ts'
import { BadResponse, EXHAUSTED, type UpstreamFault } from '../upstream/faults.ts'
import { type ResponseHead, readResponseHead } from '../upstream/parser.ts'
import { type Contained, contain } from '../values/contain.ts'
import { noteOutOfDescriptors } from '../values/descriptors.ts'
import { checkSwitch, newKey, upgradeFields } from './handshake.ts'

export interface OpenUpstream {
  readonly socket: Socket
  readonly head: ResponseHead
  readonly protocol: string | undefined
  readonly rest: Buffer
  /** From now on every byte goes here, valid until `take` returns. */
  read(take: (bytes: Buffer) => void): void
}

interface DialEvents extends Contained {
  onOpen(open: OpenUpstream): void
  /** Any final response other than 101; the socket is already closed. */
  onRefused(head: ResponseHead): void
  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean): void
}

interface DialRequest {
  readonly upstream: Upstream
  readonly target: Target
  /** Request line and fields, without those of the handshake and the empty line. */
  readonly headStart: string
  readonly subprotocols: readonly string[]
  /** From the end of connecting to the end of the response head. */
  readonly timeoutMs: number
}

const EMPTY: Buffer = Buffer.alloc(0)
const MAX_INTERIM_RESPONSES = 8

/** All that an open socket keeps from dialling. */
interface Reader {
  take(bytes: Buffer): void
}

/** Separate from the handshake, whose scope these would keep alive. */
const intoShared = (reader: Reader): OnReadOpts => ({
  buffer: readMemory,
  callback(count) {
    reader.take(readMemory.subarray(0, count))
    return true
  }
})

const ignore = () => undefined

/** Returns a function that aborts the attempt; no event follows then. */
export const dialWebSocket = (request: DialRequest, events: DialEvents): (() => void) => {
  const { upstream, target, subprotocols, timeoutMs } = request
  const key = newKey()
  let asker: DialEvents | undefined = events
  let received: Buffer = EMPTY
  let interims = 0
  let connected = false
  let timer: NodeJS.Timeout | undefined

  const settle = (report: (asker: DialEvents) => void) => {
    const caller = asker
    if (caller === undefined) return
    asker = undefined
    clearTimeout(timer)
    // The new owner of the socket listens for its errors.
    socket.off('end', onGone).off('close', onGone).off('error', onError)
    report(caller)
  }
  const fail = (fault: UpstreamFault, cause: unknown) =>
    contain(owner, () =>
      settle(caller => {
        socket.on('error', ignore).destroy()
        caller.onFault(fault, cause, !connected)
      })
    )
  const onThrown = (error: unknown) => {
    asker = undefined
    clearTimeout(timer)
    socket.on('error', ignore).destroy()
    events.onThrown(error)
  }
  const owner: Contained = { onThrown }
  const onGone = () => fail('reset', new Error('closed before a response to the upgrade'))

  const check = () => {
    for (;;) {
      const found = readResponseHead(received, 'GET')
      if (found === undefined) return
      const { head, end } = found
      received = received.subarray(end)
      if (head.status === 101) return open(head)
      if (head.status >= 200) return refused(head)
      if (++interims > MAX_INTERIM_RESPONSES) throw new BadResponse('endless interim responses')
    }
  }

  const take = (bytes: Buffer) => {
    if (asker === undefined) return
    received = Buffer.concat([received, bytes])
    try {
      check()
    } catch (error) {
      if (error instanceof BadResponse) fail('bad-response', error)
      else onThrown(error)
    }
  }
  const reader: Reader = { take }
  const read = (next: (bytes: Buffer) => void) => {
    reader.take = next
  }

  const open = (head: ResponseHead) => {
    const protocol = checkSwitch(head, key, subprotocols)
    const rest = received
    received = EMPTY
    settle(caller => caller.onOpen({ socket, head, protocol, rest, read }))
  }

  const refused = (head: ResponseHead) =>
    settle(caller => {
      socket.on('error', ignore).destroy()
      caller.onRefused(head)
    })

  const ask = () => {
    if (asker === undefined) return
    connected = true
    clearTimeout(timer)
    timer = setTimeout(() => fail('timeout', new Error('no response to the upgrade')), timeoutMs)
    socket.write(request.headStart + upgradeFields(key, subprotocols), 'latin1')
  }

  const onError = (error: Error) =>
    fail(noteOutOfDescriptors(error) ? EXHAUSTED : connected ? 'reset' : 'unreachable', error)

  const socket = dial(upstream, target, intoShared(reader))
  timer = setTimeout(() => fail('timeout', new Error('connecting took too long')), upstream.connectTimeoutMs)
  socket.once(target.tls ? 'secureConnect' : 'connect', () => contain(owner, ask))
  socket.on('error', onError)
  socket.on('end', onGone)
  socket.on('close', onGone)
  return () => settle(() => socket.on('error', ignore).destroy())
}
