// Requests and responses are read as others read them, also where a reading once differed.
// SM-01, SM-02, SM-03, SM-04, SM-05, SM-06, SM-07, SM-08, SM-09, SM-10, SM-12, SM-23, SM-24, SM-33
import t from 'tap'
import { readByGateway } from '../../tools/fuzz/readings/gateway-requests.ts'
import { fuzzReading, READINGS } from '../../tools/fuzz/readings/readings.ts'

for (const reading of READINGS) {
  t.test(`${reading.name} are read as the models read them, however their bytes are split`, async t => {
    const faults: string[] = []
    fuzzReading(reading, {
      seed: 20_262,
      goesOn: runs => runs < 5000,
      onFault: (fault, input) => faults.push(`${fault}: ${JSON.stringify(input.slice(0, 600))}`)
    })
    t.same(faults.slice(0, 5), [])
  })
}

t.test('a Host with a percent sign that encodes nothing is refused', async t => {
  for (const host of ['%', 'a%', 'a%4', 'a%zz']) {
    const bytes = Buffer.from(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    t.match(readByGateway([bytes]), { requests: [{ isRefused: true }] }, host)
  }
  t.match(readByGateway([Buffer.from('GET / HTTP/1.1\r\nHost: a%41\r\n\r\n')]), { requests: [{ isRefused: false }] })
})

t.test('a transfer coding is chunked, and not chunked behind a blank that is none in HTTP', async t => {
  for (const coding of ['chunked\xa0', '\xa0chunked', 'chunked\x85']) {
    const bytes = Buffer.from(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n`, 'latin1')
    const { requests, fault } = readByGateway([bytes])
    t.same({ requests, fault }, { requests: [], fault: 'malformed' }, JSON.stringify(coding))
  }
})
