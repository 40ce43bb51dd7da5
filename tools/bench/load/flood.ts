// Sends an exact count of requests from each of several addresses over all given ports and prints how many of each passed.
import { connect } from './http-client.ts'

interface Flags {
  readonly ports: readonly number[]
  readonly addresses: readonly string[]
  readonly path: string
  readonly token: string
  /** From each address. */
  readonly count: number
}

const { ports, addresses, path, token, count } = JSON.parse(process.argv[2] ?? '{}') as Flags
/** To each port from each address. */
const CONNECTIONS = 8

const floodFrom = async (address: string) => {
  let left = count
  const result = { address, admitted: 0, limited: 0, other: 0 }
  const work = async (port: number) => {
    const slot = await connect(port, address)
    const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`
    while (left > 0) {
      left -= 1
      const status = await new Promise<number>(done => slot.send(request, done))
      if (status === 200) result.admitted += 1
      else if (status === 429) result.limited += 1
      else result.other += 1
    }
    slot.close()
  }
  const workers = Array.from({ length: CONNECTIONS }, () => ports.map(work)).flat()
  await Promise.all(workers)
  return result
}

const results = await Promise.all(addresses.map(floodFrom))
process.stdout.write(`${JSON.stringify(results)}\n`)
