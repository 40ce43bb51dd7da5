// Checks what all endpoints of the gateway itself have in common.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { hurryTimers } from '../support/hurried-timers.ts'
import { until } from '../support/until.ts'

t.test('a body that trickles in is cut off with 408, and its handler never runs', async t => {
  // RX-02
  const world = await startGateway(t)
  hurryTimers(t)
  const connection = await world.connect()
  connection.send(
    'POST /auth/login HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{'
  )
  t.match(await connection.response(), { status: 408, headers: { connection: 'close' } })
  connection.send('"a": 1')
  await connection.closed()
  t.match(await world.logged(({ path }) => path === '/auth/login'), { status: 408, reason: 'body-too-slow' })
})

t.test(
  'the health of the gateway is answered as its other endpoints are, to HEAD and with a trailing slash too',
  async t => {
    const world = await startGateway(t)
    // What has been found once is not found anew from one request to the next.
    await until(async () => !/unknown|regranting/.test(await (await world.fetch('/health')).text()))
    const [health, head, slashed] = await Promise.all([
      world.fetch('/health'),
      fetch(`${world.url}/health`, { method: 'HEAD' }),
      world.fetch('/health/')
    ])
    const text = await health.text()
    t.equal(health.headers.get('content-length'), String(text.length))
    t.same([head.status, head.headers.get('content-length'), await head.text()], [200, String(text.length), ''])
    t.same([slashed.status, await slashed.text()], [200, text])
    t.equal((await world.fetch('/health', { method: 'POST' })).status, 405)
  }
)
