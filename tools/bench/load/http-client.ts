// A keep-alive HTTP/1.1 connection that sends one prepared request at a time and reports the status of its answer.
import { createConnection, type Socket } from 'node:net'

export interface Slot {
  /** `done` gets the status, or 0 when the connection broke or the answer could not be read. */
  send(request: string, done: (status: number) => void): void
  close(): void
}

const LENGTH = /\r\ncontent-length: *(\d+)/i
const CHUNKED = /\r\ntransfer-encoding: *chunked/i

/** Status once `text` holds a whole answer; the harness speaks to known peers, so this reads only what they send. */
const complete = (text: string): number | undefined => {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const head = text.slice(0, end)
  const status = Number(head.slice(9, 12))
  if (CHUNKED.test(head)) return text.endsWith('\r\n0\r\n\r\n') ? status : undefined
  const length = Number(LENGTH.exec(head)?.[1] ?? 0)
  return text.length >= end + 4 + length ? status : undefined
}

export const connect = (port: number, localAddress?: string): Promise<Slot> =>
  new Promise((resolve, reject) => {
    const socket: Socket = createConnection({ port, host: '127.0.0.1', ...(localAddress ? { localAddress } : {}) })
    socket.setNoDelay(true)
    socket.setEncoding('latin1')
    let text = ''
    let waiting: ((status: number) => void) | undefined

    const settle = (status: number) => {
      const done = waiting
      waiting = undefined
      text = ''
      done?.(status)
    }
    socket.on('data', (chunk: string) => {
      text += chunk
      const status = complete(text)
      if (status !== undefined) settle(status)
    })
    socket.once('error', reject)
    socket.once('close', () => settle(0))
    socket.once('connect', () =>
      resolve({
        send: (request, done) => {
          waiting = done
          if (socket.destroyed) settle(0)
          else socket.write(request, 'latin1')
        },
        close: () => socket.destroy()
      })
    )
  })
