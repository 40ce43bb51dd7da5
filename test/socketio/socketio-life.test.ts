// A session's life has named phases, and no step leads from one to another that a transport can't take.
import fc from 'fast-check'
import t from 'tap'
import {
  advance,
  begin,
  bytesLeft,
  joined,
  type Life,
  provableFrom,
  proved,
  tookBytes
} from '../../gateway/socketio/life.ts'

const STEPS = ['poll', 'open-socket', 'probe', 'abandon-probe', 'upgrade', 'end'] as const

const after = (...steps: (typeof STEPS)[number][]): Life | undefined =>
  steps.reduce<Life | undefined>((life, step) => life && advance(life, step), begin(0))

t.test('polling may be upgraded once, and only after a probe', async t => {
  t.equal(after('poll', 'probe', 'upgrade')?.phase, 'websocket')
  t.equal(after('poll', 'probe', 'abandon-probe')?.phase, 'polling')
  t.equal(after('open-socket')?.phase, 'websocket')
  t.equal(after('poll', 'upgrade'), undefined)
  t.equal(after('poll', 'probe', 'probe'), undefined)
  t.equal(after('poll', 'probe', 'upgrade', 'probe'), undefined)
})

t.test('whatever happens, what is over stays over and a WebSocket never goes back to polling', async t => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...STEPS), { maxLength: 12 }), steps => {
      let life = begin(0)
      for (const step of steps) {
        const next = advance(life, step)
        if (life.phase === 'over' && next !== undefined) throw new Error('rose again')
        if (life.phase === 'websocket' && next !== undefined && next.phase !== 'over') throw new Error('went back')
        life = next ?? life
      }
    })
  )
  t.pass()
})

t.test('bytes count until a namespace is open; what another instance saw counts too', async t => {
  const told = tookBytes(begin(0), 60_000)
  t.equal(bytesLeft(told), 40_000)
  t.equal(bytesLeft(joined(told, { proven: false, bytes: 90_000 })), 10_000)
  t.equal(bytesLeft(joined(told, { proven: true, bytes: 0 })), Number.POSITIVE_INFINITY)
  t.equal(tookBytes(proved(told), 1e9).unprovenBytes, 60_000)
  t.equal(provableFrom(told, 5000).proveUntil, 15_000)
})
