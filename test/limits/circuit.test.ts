// One state says whether Redis counts; while it does not, it is probed ever later, and nothing else changes the state.
import t, { type Test } from 'tap'
import { createCircuit, REDIS_AVAILABLE, REDIS_UNAVAILABLE } from '../../gateway/limits/circuit.ts'
import { shiftClocks } from '../support/clocks.ts'

/** A circuit whose timers are run by hand. */
const world = (t: Test) => {
  const timers: { run: () => void; delayMs: number }[] = []
  const cleared: unknown[] = []
  t.intercept(Math, 'random', { value: () => 0.5, writable: true })
  t.intercept(globalThis, 'setTimeout', {
    value(ask: (key: string) => void, delayMs: number, key: string) {
      const timer = { run: () => ask(key), delayMs, unref: () => timer }
      timers.push(timer)
      return timer
    }
  })
  t.intercept(globalThis, 'clearTimeout', { value: (timer: unknown) => void cleared.push(timer) })
  const lines: [fields: object, message: string][] = []
  const probed: string[] = []
  let answer: Error | undefined
  let ups = 0
  const log = (fields: object, message: string) => void lines.push([fields, message])
  const circuit = createCircuit(
    async key => {
      probed.push(key)
      if (answer !== undefined) throw answer
    },
    error => ({ reason: `fault ${(error as Error).message}` }),
    { info: log, warn: log },
    () => ups++
  )
  /** Runs the timer that waits, and all that follows from what its probe comes to. */
  const probe = async (failure?: string) => {
    answer = failure === undefined ? undefined : new Error(failure)
    timers.at(-1)?.run()
    for (let turn = 0; turn < 4; turn++) await Promise.resolve()
  }
  const delays = () => timers.map(({ delayMs }) => delayMs)
  return { circuit, clocks: shiftClocks(t), timers, cleared, lines, probed, ups: () => ups, probe, delays }
}

t.test('the first failure is said once; probes follow, each twice as late, until one is answered', async t => {
  const { circuit, clocks, lines, probed, probe, delays, ups } = world(t)
  t.ok(circuit.isUp())
  circuit.fail({ reason: 'timeout' }, 'the key')
  circuit.fail({ reason: 'refused' }, 'b')
  t.match([circuit.isUp(), circuit.state()], [false, { up: false, reason: 'timeout' }])
  for (let n = 0; n < 5; n++) await probe(`no ${n}`)
  t.same(delays(), [100, 200, 400, 800, 1000, 1000])
  t.same(new Set(probed), new Set(['the key']))
  t.match(circuit.state(), { up: false, reason: 'fault no 4' }, 'the reason of now')
  t.same(lines, [[{ reason: 'timeout' }, REDIS_UNAVAILABLE]], 'which is no change')

  clocks.wallMs = 5000
  await probe()
  t.match([circuit.isUp(), circuit.state(), ups()], [true, { up: true, reason: undefined }, 1])
  const [{ downMs }, message] = lines[1] as [{ downMs: number }, string]
  t.ok(message === REDIS_AVAILABLE && downMs >= 5000 && downMs < 60_000, `${downMs}`)
  t.equal(delays().length, 6, 'and nothing is asked any more')
})

t.test('instances do not ask at the same moment: a quarter earlier or later', async t => {
  const { circuit, probe, delays } = world(t)
  Math.random = () => 0
  circuit.fail({ reason: 'timeout' }, 'a')
  Math.random = () => 1
  await probe('no')
  t.same(delays(), [75, 250])
})

t.test('a failure soon after is the same one and probed as late; after ten seconds it is a new one', async t => {
  const { circuit, clocks, probe, delays } = world(t)
  for (const laterMs of [60_000, 0, 9000, 10_001]) {
    clocks.monotonicMs += laterMs
    circuit.fail({ reason: 'timeout' }, 'a')
    await probe()
  }
  t.same(delays(), [100, 200, 400, 100])
})

t.test('a closed circuit is not up, and neither asks nor changes any more', async t => {
  const { circuit, timers, cleared, lines, ups, probe } = world(t)
  circuit.fail({ reason: 'timeout' }, 'a')
  circuit.close()
  t.same(cleared, timers)
  await probe()
  await probe('no')
  circuit.fail({ reason: 'timeout' }, 'a')
  t.same([circuit.isUp(), ups(), timers.length, lines.length], [false, 0, 1, 1])
})
