// A bounded part of `npm run fuzz -- --target sockets`.
import t from 'tap'
import { fuzzSocketPackets } from '../../tools/fuzz/socket-packets.ts'

// RW-02, RW-03, WS-22, WS-23, WS-24, WS-25, WS-29
t.test('no packet lets another implementation read a namespace or an event that was not checked', async t => {
  const faults: string[] = []
  const { passed, delivered } = fuzzSocketPackets({
    seed: 20_261,
    goesOn: packets => packets < 100_000 && faults.length < 5,
    onFault: (fault, trace) => faults.push(`${fault}\n${trace}`)
  })
  t.strictSame(faults, [])
  t.ok(passed > 10_000 && delivered > 10_000, `${passed} passed, ${delivered} were delivered`)
})
