// Relays TCP between a gateway and one of its stores; a test can cut the line, silence one direction, slow it down or make it lossy.
import { connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { listen } from './ports.ts'

/** `cut`: refused and reset. `to-store`, `from-store`: nothing passes in that direction, nothing says so. */
export type LineState = 'open' | 'cut' | 'to-store' | 'from-store' | 'slow' | 'lossy'

export type Relay = Awaited<ReturnType<typeof startRelay>>

const SLOW_MS = 30
/** TCP repairs a lost segment by waiting; now and then the connection dies of it. */
const RETRANSMIT_MS = 200
const LOSS = 0.05
const DEATH = 0.005

export const startRelay = async (t: Pick<Test, 'teardown'>, firstPort: number) => {
  const sockets = new Set<Socket>()
  let state: LineState = 'open'
  let targetPort = firstPort
  let repliesLateMs = 0

  /** Bytes keep their order; those that a silent line swallows are lost for good, as behind a firewall that forgot. */
  const pass = (from: Socket, to: Socket, silentIn: LineState) => {
    let readyAt = 0
    from.on('data', chunk => {
      if (state === silentIn) return
      if (state === 'lossy' && Math.random() < DEATH) {
        from.destroy()
        return
      }
      const lateMs = silentIn === 'from-store' ? repliesLateMs : 0
      const delayMs = state === 'slow' ? SLOW_MS : state === 'lossy' && Math.random() < LOSS ? RETRANSMIT_MS : lateMs
      readyAt = Math.max(readyAt, performance.now() + delayMs)
      const waitMs = readyAt - performance.now()
      if (waitMs <= 0) to.write(chunk)
      else setTimeout(() => !to.destroyed && to.write(chunk), waitMs)
    })
  }

  const server = createServer(near => {
    if (state === 'cut') {
      near.destroy()
      return
    }
    const far = connect(targetPort, '127.0.0.1')
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    pass(near, far, 'to-store')
    pass(far, near, 'from-store')
  })
  const port = await listen(t, server)
  return {
    port,
    /** Connections made from now on lead elsewhere; those that are open stay. */
    redirect(port: number) {
      targetPort = port
    },
    /** On a line that is open, what comes back arrives so much later. */
    delayReplies(ms: number) {
      repliesLateMs = ms
    },
    set(next: LineState) {
      // A line that comes back has lost bytes: connections of before would be garbled.
      const isGarbled = state === 'to-store' || state === 'from-store'
      state = next
      if (next === 'cut' || (next === 'open' && isGarbled)) for (const socket of sockets) socket.destroy()
    }
  }
}
