// Checks what all endpoints of the gateway itself have in common.
import buildValidators from '@fastify/ajv-compiler'
import buildSerializers from '@fastify/fast-json-stringify-compiler'
import t from 'tap'
import { shiftClocks } from '../support/clocks.ts'
import { startGateway } from '../support/gateway.ts'
import { hurryTimers } from '../support/hurried-timers.ts'
import { until } from '../support/until.ts'

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
}
interface Operation {
  readonly parameters?: readonly { readonly schema: object }[]
  readonly requestBody?: Content
  readonly responses?: Readonly<Record<string, Content>>
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const world = await startGateway(t)

const login = (fields: string) =>
  `POST /auth/login HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\n${fields}\r\n\r\n`

t.test('a body that trickles in is cut off with 408, and its handler never runs', async t => {
  // RX-02
  hurryTimers(t)
  const connection = await world.connect()
  connection.send(`${login('Content-Length: 100')}{`)
  t.match(await connection.response(), { status: 408, headers: { connection: 'close' } })
  connection.send('"a": 1')
  await connection.closed()
  t.match(await world.logged(({ path, status }) => path === '/auth/login' && status === 408), {
    reason: 'body-too-slow'
  })
})

t.test('a body that arrived while the process stood still is read', async t => {
  hurryTimers(t)
  const connection = await world.connect()
  connection.send(login('Content-Length: 2\r\nExpect: 100-continue'))
  t.equal((await connection.response()).status, 100)
  connection.send('{}')
  const since = performance.now()
  while (performance.now() - since < 500);
  t.match(await connection.response(), { status: 400, body: /username/ })
})

t.test('a body whose time is over when the process continues after a standstill has it again', async t => {
  const clocks = shiftClocks(t)
  const world = await startGateway(t)
  hurryTimers(t)
  const connection = await world.connect()
  connection.send(login('Content-Length: 2\r\nExpect: 100-continue'))
  t.equal((await connection.response()).status, 100)
  clocks.monotonicMs = 60_000
  const since = process.uptime()
  while (process.uptime() - since < 0.5);
  for (let turns = 0; turns < 3; turns++) await new Promise(resolve => setImmediate(resolve))
  connection.send('{}')
  t.match(await connection.response(), { status: 400, body: /username/ })
})

t.test('a malformed body is logged as such', async t => {
  t.equal((await world.raw(`${login('Transfer-Encoding: chunked')}ZZ\r\n`)).status, 400)
  t.match(await world.logged(({ reason }) => reason === 'malformed-body'), { path: '/auth/login', status: 400 })
})

t.test('a body whose length is not announced and that turns out to be empty is no body, whatever its type', async t => {
  for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded'])
    for (const [path, status] of [
      ['/auth/logout', 204],
      ['/auth/login', 400]
    ] as const) {
      const answer = await world.raw(
        `POST ${path} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${await world.tokenFor()}\r\nContent-Type: ${type}\r\n` +
          'Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n'
      )
      t.equal(answer.status, status, `${path} ${type}`)
      if (status === 400) t.match(answer.body, /body must be object/)
    }
})

t.test('an id of any length that does not exist is 404 in the usual form, and is not repeated', async t => {
  // RT-20
  const token = await world.tokenFor({ profiles: ['Admin'] })
  for (const [method, path] of [
    ['DELETE', '/auth/sessions/'],
    ['DELETE', '/auth/tokens/'],
    ['DELETE', '/auth/admin/sockets/'],
    ['GET', '/auth/admin/users/'],
    ['POST', '/auth/admin/clients/9/rotate/']
  ] as const) {
    const answer = await world.fetch(path + '7'.repeat(2000), { method, token })
    const text = await answer.text()
    t.equal(answer.status, 404, path)
    t.match(JSON.parse(text), { code: /^GW_(?:NOT_FOUND|NO_ROUTE)$/, requestId: answer.headers.get('x-request-id') })
    // The request id has no more than twelve digits in a row.
    t.notMatch(text, /7{13}/)
    t.match(Object.fromEntries(answer.headers), { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  }
})

t.test('every schema of the own endpoints can be compiled, although each waits until it is needed', async t => {
  const { paths } = (world.gateway.openapi?.() ?? { paths: {} }) as Document
  const operations = Object.values(paths).flatMap(path => Object.values(path))
  const contents = operations.flatMap(({ requestBody, responses }) => [
    requestBody?.content,
    ...Object.values(responses ?? {}).map(({ content }) => content)
  ])
  const schemas = contents.flatMap(content => Object.values(content ?? {}).map(({ schema }) => schema))
  t.ok(schemas.length > 40, `${schemas.length} schemas`)
  // As strict as the endpoints themselves are.
  const validator = buildValidators()({}, { customOptions: {} })
  const parameters = operations.flatMap(operation => operation.parameters ?? [])
  const asked = parameters.map(({ schema }) => ({ type: 'object', properties: { value: schema } }))
  for (const schema of [...schemas, ...asked])
    t.doesNotThrow(() => validator({ schema } as never), JSON.stringify(schema))
  const serializer = buildSerializers()({})
  for (const schema of schemas)
    t.doesNotThrow(() => serializer({ method: 'GET', url: '/', httpStatus: '200', schema }), JSON.stringify(schema))
})

t.test('/health is answered as other endpoints are, to HEAD and with a trailing slash too', async t => {
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
})
