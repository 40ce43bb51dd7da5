// Sends an exact count of requests from each of several addresses over all given ports and prints how many of each passed.
import { parseArgs } from 'node:util'
import { connect } from './http-client.ts'

const { values } = parseArgs({
  options: {
    ports: { type: 'string' },
    addresses: { type: 'string' },
    path: { type: 'string' },
    token: { type: 'string' },
    /** From each address. */
    count: { type: 'string' },
    /** To each port from each address. */
    connections: { type: 'string', default: '8' }
  }
})

const ports = (values.ports ?? '').split(',').map(Number)

const floodFrom = async (address: string) => {
  let left = Number(values.count)
  const result = { address, admitted: 0, limited: 0, other: 0 }
  const work = async (port: number) => {
    const slot = await connect(port, address)
    const request = `GET ${values.path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${values.token}\r\n\r\n`
    while (left > 0) {
      left -= 1
      const status = await new Promise<number>(done => slot.send(request, done))
      if (status === 200) result.admitted += 1
      else if (status === 429) result.limited += 1
      else result.other += 1
    }
    slot.close()
  }
  const workers = Array.from({ length: Number(values.connections) }, () => ports.map(work)).flat()
  await Promise.all(workers)
  return result
}

const results = await Promise.all((values.addresses ?? '').split(',').map(floodFrom))
process.stdout.write(`${JSON.stringify(results)}\n`)
