// Answers requests that RFC 9112 allows a proxy to send; anything else is noted as a fault.
import net from 'node:net'
import type { Test } from 'tap'
import type { RawRequest } from '../../test/support/raw-upstream.ts'
import { valuesOf } from './readings/http-lines.ts'
import { type ReadRequest, readRequests } from './readings/http-requests.ts'

export interface StrictUpstream {
  readonly url: string
  readonly port: number
  /** Requests since the last call. */
  takeRequests(): StrictRequest[]
  /** Faults since the last call. */
  takeFaults(): string[]
  open(): number
}

export type StrictRequest = Omit<RawRequest, 'socket'> & Pick<ReadRequest, 'trailers'>

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** A proxy sends origin-form to a server, and has met an expectation itself. */
const faultOf = ({ inadmissible, target, fields }: ReadRequest): string | undefined =>
  inadmissible ?? (/^[/*]/.test(target) && valuesOf(fields, 'expect').length === 0 ? undefined : 'not from a proxy')

const received = ({ method, target, fields, body, trailers }: ReadRequest, head: string): StrictRequest => ({
  head,
  method,
  target,
  headers: fields.map(([name, value]) => [name, value]),
  body,
  trailers
})

export const startStrictUpstream = async (t: Pick<Test, 'teardown'>): Promise<StrictUpstream> => {
  let requests: StrictRequest[] = []
  let faults: string[] = []
  const sockets = new Set<net.Socket>()
  const server = net.createServer(socket => {
    sockets.add(socket)
    let pending = ''
    socket.on('data', chunk => {
      pending += chunk.toString('latin1')
      const read = readRequests(pending)
      for (const request of read.requests) {
        const fault = faultOf(request)
        if (fault !== undefined) faults.push(`${fault}: ${JSON.stringify(pending)}`)
        if (!request.complete) break
        requests.push(received(request, pending.slice(0, pending.indexOf('\r\n\r\n') + 4)))
        socket.write(request.method === 'HEAD' ? OK.slice(0, -2) : OK)
      }
      if (read.refused !== undefined) {
        faults.push(`${read.refused}: ${JSON.stringify(pending)}`)
        socket.destroy()
      }
      pending = pending.slice(read.end)
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  })
  const { port } = server.address() as net.AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    takeRequests() {
      const taken = requests
      requests = []
      return taken
    },
    takeFaults() {
      const taken = faults
      faults = []
      return taken
    },
    open: () => sockets.size
  }
}
