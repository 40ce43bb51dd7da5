// Bounded parts of npm run fuzz: bytes of clients and upstreams, and packets of Socket.IO.
import t from 'tap'
import { fuzzClientBytes } from '../../tools/fuzz/client-bytes.ts'
import { fuzzSocketPackets } from '../../tools/fuzz/socket-packets.ts'
import { fuzzUpstreamBytes } from '../../tools/fuzz/upstream-bytes.ts'

const SEED = 20_261
const faults: string[] = []
const onFault = (fault: string, bytes: string) => faults.push(`${fault}: ${JSON.stringify(bytes.slice(0, 600))}`)

t.test('whatever a client sends, what reaches a backend is well-formed, its rule’s, and honestly signed', async t => {
  // SM-33, SM-18, SM-22, SM-32, RX-20, AD-13
  const { forwarded } = await fuzzClientBytes(t, { seed: SEED, goesOn: done => done < 3000, onFault })
  t.same(faults, [])
  t.ok(forwarded > 300, `${forwarded} requests were checked`)
})

t.test('whatever bytes an upstream answers, each client gets its own answer, whole or visibly broken', async t => {
  // SM-34, RX-07, RX-14, RX-15, RX-16, RX-20, AD-13
  await fuzzUpstreamBytes(t, { seed: SEED, goesOn: done => done < 800, onFault })
  t.same(faults, [])
})

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
