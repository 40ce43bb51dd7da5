// A body costs no delay over TLS; that bodies arrive whole is shown in body-matrix.test.ts.
import t from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { startGateway } from '../support/gateway.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const authority = createCertificateAuthority(t.testdir({}))

const raw = await startRawUpstream(t, authority.issue('backend'))
const world = await startGateway(t, {
  config: {
    upstreams: { raw: { url: raw.url, caFile: authority.caFile } },
    routes: [{ path: '/x', upstream: 'raw', public: true }]
  }
})

t.test('a request with a body costs no more time over TLS than one without', async t => {
  // RV-04: the body waited for the delayed acknowledgement of its head, 40 ms each time.
  raw.respond(() => OK)
  const connection = await world.connect()
  t.teardown(() => connection.destroy())
  const time = async (request: string): Promise<number> => {
    const begun = performance.now()
    for (let n = 0; n < 20; n++) {
      connection.send(request)
      t.equal((await connection.response()).status, 200)
    }
    return performance.now() - begun
  }
  const extraMs: number[] = []
  for (let round = 0; round < 3; round++) {
    const withoutBody = await time('GET /x HTTP/1.1\r\nHost: gw\r\n\r\n')
    extraMs.push((await time('POST /x HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\n\r\nhello')) - withoutBody)
  }
  t.ok(Math.min(...extraMs) < 20 * 20, `${extraMs} ms`)
})
