// Open streams have a budget of their own for each upstream, of which nobody takes more than a share.
import { createServer } from 'node:http'
import t from 'tap'
import { WebSocketServer } from 'ws'
import { routesTo, startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { until } from '../support/until.ts'

const backend = createServer((req, res) => {
  if (req.url?.startsWith('/events') !== true) return res.end('plain')
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  return res.write('data: x\n\n')
})
new WebSocketServer({ server: backend })

// 3 and 6 of the 16,384 streams of one target.
const env = { STREAMS_PER_USER: '0.02%', STREAMS_PER_IP: '0.04%', TRUST_PROXY: '127.0.0.1' }
const world = await startGateway(t, {
  env,
  config: routesTo(`http://127.0.0.1:${await listen(t, backend)}`, [
    { path: '/events/*' },
    { path: '/plain' },
    { path: '/live', websocket: {} }
  ])
})

const open = async (token: string, from: string) => {
  const stop = new AbortController()
  const headers = { 'x-forwarded-for': from }
  const answer = await world.fetch('/events/a', { token, headers, signal: stop.signal })
  return { answer, stop: () => stop.abort() }
}

// RW-09, WS-20
t.test('with the caps reached by one person, another opens a stream and a request at once', async t => {
  const maria = await world.tokenFor({ id: 900_001 })
  const ana = await world.tokenFor({ id: 900_002 })
  const streams = []
  for (let i = 0; i < 2; i++) streams.push(await open(maria, '192.0.2.1'))
  const upgrade = (token: string, from: string) =>
    rawWebSocket(world.port, { path: '/live', headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': from } })
  const live = await upgrade(maria, '192.0.2.1')
  t.match(live.head(), /^HTTP\/1\.1 101 /)
  const refused = await open(maria, '192.0.2.2')
  t.equal(refused.answer.status, 429, 'all kinds of streams count together, from whatever address')
  t.match(await refused.answer.json(), { code: 'GW_RATE_LIMITED' })
  t.equal(refused.answer.headers.get('retry-after'), '10')
  t.match((await upgrade(maria, '192.0.2.2')).head(), /^HTTP\/1\.1 429 /)
  t.equal((await world.fetch('/plain', { token: maria })).status, 200, 'requests are no streams')
  const others = [await open(ana, '192.0.2.1'), await open(ana, '192.0.2.1'), await open(ana, '192.0.2.1')]
  t.ok(others.every(({ answer }) => answer.status === 200))
  const third = await world.tokenFor({ id: 900_003 })
  t.equal((await open(third, '192.0.2.1')).answer.status, 429, 'the address has its share')
  const elsewhere = await open(third, '192.0.2.9')
  t.equal(elsewhere.answer.status, 200)
  streams[0]?.stop()
  await until(() => world.log.filter(({ path }) => path === '/events/a').length > 2, 'given back')
  const again = await open(maria, '192.0.2.3')
  t.equal(again.answer.status, 200)
  for (const { stop } of [...streams, ...others, elsewhere, again]) stop()
  live.socket.destroy()
})
