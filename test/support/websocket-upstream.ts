// Takes WebSocket upgrades as a backend of bytes, for which the test then speaks.
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { acceptOf } from '../../gateway/websocket/handshake.ts'
import { startRawUpstream } from './raw-upstream.ts'

export interface WebSocketPeer {
  readonly socket: Socket
  /** Everything that followed the request. */
  received: Buffer
}

/** The head that takes an upgrade; `fields` are further lines, each with its end. */
export const switchingProtocols = (request: string, fields = ''): string => {
  const key = /^sec-websocket-key: *(.*)\r$/im.exec(request)?.[1] ?? ''
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${acceptOf(key)}\r\n${fields}\r\n`
  )
}

export const startWebSocketUpstream = async (t: Pick<Test, 'teardown'>) => {
  const upstream = await startRawUpstream(t)
  /** In the order in which they were taken. */
  const peers: WebSocketPeer[] = []
  upstream.respond(({ head, socket }) => {
    const peer = { socket, received: Buffer.alloc(0) }
    socket.on('data', bytes => {
      peer.received = Buffer.concat([peer.received, bytes])
    })
    peers.push(peer)
    return switchingProtocols(head)
  })
  return { ...upstream, peers }
}
