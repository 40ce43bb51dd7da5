// A request whose target refuses the connection goes to another one, with its body.
// RV-05
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const BODIES: readonly (readonly [name: string, text: string, sent: string])[] = [
  ['a length', 'Content-Length: 5\r\n\r\nhello', 'hello'],
  ['no body', 'Content-Length: 0\r\n\r\n', ''],
  ['chunks', 'Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n', '5\r\nhello\r\n0\r\n\r\n'],
  ['100,000 bytes', `Content-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`, 'x'.repeat(100_000)]
]

t.test('a target that refuses connections is replaced, whatever the method and the body', async t => {
  const upstream = await startRawUpstream(t)
  const refusing = `http://127.0.0.1:${await freePort()}`
  const targets = [refusing, upstream.url]
  for (const streaming of [false, true]) {
    const world = await startGateway(t, {
      config: {
        upstreams: { two: { targets, outlier: { errors: 0 } } },
        routes: [{ path: '/*', upstream: 'two', public: true, streaming }]
      }
    })
    for (const method of ['POST', 'PUT', 'DELETE'])
      for (const [name, text, sent] of BODIES)
        for (let turn = 0; turn < 2; turn++) {
          const answer = await world.raw(`${method} /x HTTP/1.1\r\nHost: gw\r\n${text}`)
          t.equal(answer.status, 200, `${method} with ${name}`)
          const body = upstream.requests.at(-1)?.body ?? ''
          t.ok(streaming ? body.length >= sent.length : body === sent, 'the body arrives whole')
        }
  }
})
