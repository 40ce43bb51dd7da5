// An upstream of large bodies: GET ?bytes=N sends so many, any other method counts what it gets and answers the count.
import { createServer } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { blocks } from './blocks.ts'

const server = createServer((request, response) => {
  if (request.headers['x-user-id'] === undefined) return void response.writeHead(418).end()
  if (request.method === 'GET') {
    const bytes = Number(new URL(request.url ?? '/', 'http://localhost').searchParams.get('bytes') ?? 0)
    response.writeHead(200, { 'content-length': bytes })
    return void pipeline(Readable.from(blocks(bytes)), response, () => undefined)
  }
  let received = 0
  request.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  request.on('end', () => response.end(`${received}`))
})
server.requestTimeout = 0
server.keepAliveTimeout = 300_000
server.listen(Number(process.env.PORT), '127.0.0.1')
