// Answers requests that RFC 9112 allows a proxy to send; anything else is noted as a fault.
import net from 'node:net'
import type { Test } from 'tap'
import { listen } from '../../test/support/ports.ts'
import type { RawRequest } from '../../test/support/raw-upstream.ts'
import { valuesOf } from './readings/http-lines.ts'
import { type ReadRequest, readRequests } from './readings/http-requests.ts'

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

export const startStrictUpstream = async (t: Pick<Test, 'teardown'>) => {
  const requests: StrictRequest[] = []
  const faults: string[] = []
  let open = 0
  const server = net.createServer(socket => {
    open++
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
    socket.on('close', () => open--)
  })
  return {
    url: `http://127.0.0.1:${await listen(t, server)}`,
    open: () => open,
    /** Those since the last call. */
    takeRequests: () => requests.splice(0),
    takeFaults: () => faults.splice(0)
  }
}
