// Queries with raw UTF-8 bytes, as some programs send them, pass as they are; paths with such bytes are refused.
// RV-19
import t from 'tap'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { openStore, person } from '../support/store.ts'

const RAW_QUERY = Buffer.from('?q=ção&€').toString('latin1')

const [postgres, upstream] = [await startPostgres(t), await startRawUpstream(t)]
const world = await startGateway(t, {
  postgres,
  env: { BROWSER_SESSION: 'true' },
  config: routesTo(upstream.url, [
    { path: '/p/*', public: true },
    { path: '/pages/*', browser: true }
  ])
})

t.test('raw bytes of a query reach the backend as they were sent, in one piece or byte by byte', async t => {
  const connection = await world.connect()
  const request = `GET /p/x${RAW_QUERY} HTTP/1.1\r\nHost: gw\r\nX-Name: \xe7\r\n\r\n`

  connection.send(request)
  t.equal((await connection.response()).status, 200)
  t.equal(upstream.requests[0]?.target, `/p/x${RAW_QUERY}`)

  for (const byte of request) {
    connection.send(byte)
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal((await connection.response()).status, 200, 'on the same connection')
  t.equal(upstream.requests[1]?.target, `/p/x${RAW_QUERY}`)

  for (const query of ['', RAW_QUERY]) {
    connection.send(`GET /p/\xc3\xa7${query} HTTP/1.1\r\nHost: gw\r\n\r\n`)
    t.match(await connection.response(), { status: 400, body: /GW_BAD_PATH/, headers: { connection: 'keep-alive' } })
  }
  connection.send('GET /p/x HTTP/1.1\r\nHost: gw\r\n\r\n')
  t.equal((await connection.response()).status, 200, 'the connection goes on')
  t.equal(upstream.requests.length, 3)
})

t.test('a login returns to a query with raw bytes', async t => {
  const navigation = 'Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n'
  const answer = await world.raw(`GET /pages/x${RAW_QUERY} HTTP/1.1\r\nHost: gw\r\n${navigation}\r\n`)
  t.equal(answer.status, 302)
  const back = new URL(answer.headers.location ?? '', world.url).searchParams.get('returnTo')
  t.equal(back, '/pages/x?q=%C3%A7%C3%A3o&%E2%82%AC')
})

t.test('an own endpoint reads raw bytes of a query as the text that they are', async t => {
  const token = await world.tokenFor({ profiles: ['Admin'] })
  const { users } = await openStore(t, postgres, postgres.url)
  await users.syncPerson(person('jose', { name: 'José' }))
  const search = Buffer.from('?search=José').toString('latin1')
  const answer = await world.raw(
    `GET /auth/admin/users${search} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\n\r\n`
  )
  t.match(JSON.parse(answer.body), { total: 1 })
})
