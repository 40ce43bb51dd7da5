// Routes the end and the errors of a client socket to its connection with functions that all sockets share.
import type { Duplex } from 'node:stream'

interface Ended {
  onPeerEnd(): void
}

const CONNECTION = Symbol('connection')

interface Served extends Duplex {
  [CONNECTION]?: Ended
}

function onEnd(this: Served) {
  this[CONNECTION]?.onPeerEnd()
}

function onError(this: Served) {
  this.destroy()
}

export const leadEvents = (socket: Duplex, connection: Ended): void => {
  const served: Served = socket
  served[CONNECTION] = connection
  socket.on('end', onEnd).on('error', onError)
}

/** The new owner of the socket handles its end from now on; errors still destroy it. */
export const leaveEvents = (socket: Duplex): void => {
  socket.off('end', onEnd)
}
