// An upstream takes only requests that RFC 9112 allows a proxy to send; anything else is noted as a fault.

import net from 'node:net'
import type { Test } from 'tap'
import type { RawRequest } from '../../test/support/raw-upstream.ts'

export interface StrictUpstream {
  readonly url: string
  /** Requests since the last call. */
  takeRequests(): RawRequest[]
  /** Faults since the last call. */
  takeFaults(): string[]
  open(): number
}

const HEAD =
  /^([A-Z]+) (\/[!-~]*?(?:\?[!-~\x80-\xff]*)?|\*) HTTP\/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n$/
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Length of a chunked body at the start of `text`; undefined while incomplete, -1 when malformed. */
const chunkedLength = (text: string): number | undefined => {
  let at = 0
  for (;;) {
    const end = text.indexOf('\r\n', at)
    if (end === -1) return undefined
    const size = text.slice(at, end)
    if (!/^[0-9a-f]{1,8}$/.test(size)) return -1
    const length = Number.parseInt(size, 16)
    if (text.length < end + 4 + length) return undefined
    if (text.slice(end + 2 + length, end + 4 + length) !== '\r\n') return -1
    at = end + 4 + length
    if (length === 0) return at
  }
}

interface Parsed {
  request: Omit<RawRequest, 'socket'>
  length: number
}

/** A request at the start of `text`; undefined while incomplete, a string when it is none. */
const parse = (text: string): Parsed | string | undefined => {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = text.slice(0, end + 4)
  const line = HEAD.exec(head)
  if (line === null) return head
  const [, method = '', target = '', fields = ''] = line
  const headers = fields
    .split('\r\n')
    .filter(Boolean)
    .map((field): [string, string] => [field.slice(0, field.indexOf(':')), field.slice(field.indexOf(':') + 1).trim()])
  const of = (name: string) => headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value)
  const [lengths, encodings] = [of('content-length'), of('transfer-encoding')]
  if (of('host').length !== 1 || lengths.length + encodings.length > 1 || of('expect').length > 0) return head
  if (encodings.some(value => value !== 'chunked') || lengths.some(value => !/^\d+$/.test(value))) return head
  const rest = text.slice(end + 4)
  const length = encodings.length > 0 ? chunkedLength(rest) : Number(lengths[0] ?? 0)
  if (length === -1) return `${head}${rest.slice(0, 200)}`
  if (length === undefined || rest.length < length) return undefined
  return { request: { head, body: rest.slice(0, length), target, method, headers }, length: end + 4 + length }
}

export const startStrictUpstream = async (t: Pick<Test, 'teardown'>): Promise<StrictUpstream> => {
  let requests: RawRequest[] = []
  let faults: string[] = []
  const sockets = new Set<net.Socket>()
  const server = net.createServer(socket => {
    sockets.add(socket)
    let pending = ''
    socket.on('data', chunk => {
      pending += chunk.toString('latin1')
      for (let parsed = parse(pending); parsed !== undefined; parsed = parse(pending)) {
        if (typeof parsed === 'string') {
          faults.push(JSON.stringify(parsed))
          socket.destroy()
          return
        }
        pending = pending.slice(parsed.length)
        requests.push({ ...parsed.request, socket })
        socket.write(parsed.request.method === 'HEAD' ? OK.slice(0, -2) : OK)
      }
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  })
  return {
    url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`,
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
