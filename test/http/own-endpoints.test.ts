import { pino } from 'pino'
import t from 'tap'
import { answerRefusal } from '../../gateway/http/answer.ts'
import { createClientAddress } from '../../gateway/http/client-address.ts'
import { createCrossOrigins } from '../../gateway/http/cross-origin.ts'
import { Exchange } from '../../gateway/http/exchange.ts'
import { createFloodMemory } from '../../gateway/http/flood-memory.ts'
import { createOwnEndpoints } from '../../gateway/http/own-endpoints.ts'
import { startListener } from '../support/http-listener.ts'
import { connectRaw } from '../support/raw-client.ts'

t.test('a body that trickles in is cut off with 408, and its handler never runs', async t => {
  // RX-02
  const origins = createCrossOrigins('http://localhost', 'http://localhost', [])
  const answers = { origins, memory: createFloodMemory() }
  let ran = false
  const own = await createOwnEndpoints({
    origins,
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
  const hooks = { onClosed: () => undefined, onBodyFault: () => undefined }
  const { port } = await startListener(t, request => {
    const exchange = new Exchange(request, clientAddress, hooks)
    exchange.path = '/slow'
    own.handle(exchange)
  })
  t.teardown(() => own.close())
  const connection = await connectRaw(port)
  connection.send('POST /slow HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{')
  t.match(await connection.response(), { status: 408, headers: { connection: 'close' } })
  connection.send('"a": 1')
  await connection.closed()
  t.notOk(ran)
})
