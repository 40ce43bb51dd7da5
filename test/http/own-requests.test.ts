// The gateway's own endpoints answer what they are asked, and refuse with one shape of error, without a connection.
import { pino } from 'pino'
import t from 'tap'
import type { GatewayError } from '../../gateway/errors.ts'
import { createCrossOrigins } from '../../gateway/http/cross-origin.ts'
import { createOwnEndpoints } from '../../gateway/http/own-endpoints.ts'
import { exchangeOf } from '../support/exchanges.ts'

interface Outcome {
  readonly status?: number
  readonly body?: unknown
  readonly error?: GatewayError
}

/** Asks an endpoint that repeats what it got. */
const startEndpoints = async (bodyTimeoutMs?: number) => {
  const settle = new Map<object, (outcome: Outcome) => void>()
  const own = await createOwnEndpoints({
    origins: createCrossOrigins('http://localhost', 'http://localhost', []),
    log: pino({ level: 'silent' }),
    refuse: (exchange, error) => settle.get(exchange)?.({ error }),
    ...(bodyTimeoutMs === undefined ? {} : { bodyTimeoutMs }),
    register: app => {
      app.all('/x', async ({ body, headers }) => ({ body, headers }))
    }
  })
  t.teardown(() => own.close())
  return (fields: string[], body?: string) =>
    new Promise<Outcome>(resolve => {
      const length = body === undefined ? [] : ['Content-Length', String(body.length)]
      const exchange = exchangeOf({ method: 'POST', fields: ['Host', 'gw', ...fields, ...length] })
      settle.set(exchange, resolve)
      Object.assign(exchange.response, {
        whole: ({ status }: { status: number }, text: string) => resolve({ status, body: JSON.parse(text) })
      })
      exchange.request.isComplete = body === undefined
      own.handle(exchange)
      // A wait that is not a number would be a timer of a millisecond; those of the same length fire in order.
      const send = () => {
        exchange.request.consumer?.onUpload(Buffer.from(body ?? ''))
        exchange.request.consumer?.onUploadEnd()
      }
      if (body !== undefined && bodyTimeoutMs === undefined) setTimeout(send, 1)
    })
}

t.test('an endpoint gets the fields and the body of its request', async t => {
  const ask = await startEndpoints()
  t.match(
    await ask(
      ['Content-Type', 'application/json', 'X-A', '1', 'x-a', '2', 'Cookie', 'a=1', 'cookie', 'b=2'],
      '{"b":[1]}'
    ),
    {
      status: 200,
      body: {
        body: { b: [1] },
        headers: { host: 'gw', 'x-a': '1, 2', cookie: 'a=1; b=2', 'content-type': 'application/json' }
      }
    }
  )
})

t.test('a body of another type, one that is no JSON and one that is late are refused as what they are', async t => {
  const ask = await startEndpoints()
  const refused = (statusCode: number, code: string, reason: string) => ({ error: { statusCode, code, reason } })
  t.match(await ask(['Content-Type', 'text/xml'], '<a/>'), refused(415, 'GW_UNSUPPORTED_MEDIA', 'bad-body'))
  t.match(await ask(['Content-Type', 'application/json'], '{'), refused(400, 'GW_BAD_REQUEST', 'bad-body'))
  const askOnce = await startEndpoints(1)
  t.match(await askOnce(['Content-Type', 'application/json'], '{}'), refused(408, 'GW_BAD_REQUEST', 'body-too-slow'))
})
