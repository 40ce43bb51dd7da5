// What reaches a backend of an HTTP/2 request is that request, or nothing; a million messages go through `npm run fuzz -- --target http2`.
import t from 'tap'
import { faultCounts } from '../../gateway/values/contain.ts'
import { fuzzHttp2 } from '../../tools/fuzz/http2/compare.ts'

const MESSAGES = 2000

t.test('a well-formed HTTP/2 request is forwarded as it was meant, a malformed one is refused', async t => {
  const faults: string[] = []
  const { done, forwarded } = await fuzzHttp2(t, {
    seed: 38,
    goesOn: sent => sent < MESSAGES,
    onFault: (fault, message) => faults.push(`${fault}: ${message}`)
  })
  t.same(faults.slice(0, 5), [])
  t.ok(done >= MESSAGES && forwarded > MESSAGES / 4, `${forwarded} of ${done} were forwarded`)
  t.same(Object.values(faultCounts()).filter(Boolean), [], 'a client that leaves makes nothing throw')
})
