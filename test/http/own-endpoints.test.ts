import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import t from 'tap'
import { answerRefusal } from '../../gateway/http/answer.ts'
import { createClientAddress } from '../../gateway/http/client-address.ts'
import { createExchange } from '../../gateway/http/exchange.ts'
import { createOwnEndpoints } from '../../gateway/http/own-endpoints.ts'
import { connectRaw } from '../support/raw-client.ts'

t.test('a body that trickles in is cut off with 408, and its handler never runs', async t => {
  // RX-02
  const answers = { corsOrigin: 'http://localhost' }
  let ran = false
  const own = await createOwnEndpoints({
    ...answers,
    log: pino({ level: 'silent' }),
    refuse: (exchange, error) => answerRefusal(exchange, error, answers),
    bodyTimeoutMs: 20,
    register: app => {
      app.post('/slow', async () => {
        ran = true
        return {}
      })
    }
  })
  const clientAddress = createClientAddress([])
  const server = http.createServer((req, res) => {
    const exchange = createExchange(req, res, clientAddress)
    exchange.path = '/slow'
    own.handle(exchange)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    server.close()
    await own.close()
  })
  const connection = await connectRaw((server.address() as AddressInfo).port)
  connection.send('POST /slow HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{')
  t.match(await connection.response(), { status: 408, headers: { connection: 'close' } })
  connection.send('"a": 1')
  await connection.closed()
  t.notOk(ran)
})
