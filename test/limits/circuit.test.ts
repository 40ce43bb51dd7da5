// One state says whether Redis counts; while it does not, it is probed ever later, and nothing else changes the state.
import t, { type Test } from 'tap'
import { createCircuit, REDIS_AVAILABLE, REDIS_UNAVAILABLE } from '../../gateway/limits/circuit.ts'
import { shiftClocks } from '../support/clocks.ts'

interface Timer {
  readonly run: () => void
  readonly delayMs: number
  isUnref: boolean
  isCleared: boolean
}

/** A circuit whose timers are run by hand; `answers` are what the probes come to, one after the other. */
const world = (t: Test) => {
  const clocks = shiftClocks(t)
  const timers: Timer[] = []
  const { setTimeout: realSetTimeout, clearTimeout: realClearTimeout } = globalThis
  const { random } = Math
  t.teardown(() => {
    globalThis.setTimeout = realSetTimeout
    globalThis.clearTimeout = realClearTimeout
    Math.random = random
  })
  Math.random = () => 0.5
  globalThis.setTimeout = ((ask: (key: string) => void, delayMs: number, key: string) => {
    const timer: Timer = { run: () => ask(key), delayMs, isUnref: false, isCleared: false }
    timers.push(timer)
    return Object.assign(timer, {
      unref() {
        timer.isUnref = true
        return timer
      }
    })
  }) as unknown as typeof setTimeout
  globalThis.clearTimeout = ((timer: Timer | undefined) => {
    if (timer !== undefined) timer.isCleared = true
  }) as unknown as typeof clearTimeout

  const lines: [level: string, fields: object, message: string][] = []
  const answers: (Error | undefined)[] = []
  const probed: string[] = []
  let ups = 0
  const circuit = createCircuit(
    async key => {
      probed.push(key)
      const error = answers.shift()
      if (error !== undefined) throw error
    },
    error => ({ reason: `fault ${(error as Error).message}` }),
    {
      info: (fields, message) => void lines.push(['info', fields, message]),
      warn: (fields, message) => void lines.push(['warn', fields, message])
    },
    () => ups++
  )
  /** Runs the timer that waits, and all that follows from what its probe comes to. */
  const probe = async (answer?: Error) => {
    answers.push(answer)
    timers.at(-1)?.run()
    for (let turn = 0; turn < 4; turn++) await Promise.resolve()
  }
  return { circuit, clocks, timers, lines, probed, ups: () => ups, probe }
}

const delaysOf = (timers: readonly Timer[]) => timers.map(({ delayMs }) => delayMs)

t.test('a circuit is up at first, goes down with the first failure alone, and says so once', async t => {
  const { circuit, clocks, timers, lines } = world(t)
  t.ok(circuit.isUp())
  t.match(circuit.state(), { up: true, reason: undefined })
  t.ok(Math.abs(circuit.state().since - Date.now()) < 10_000)
  t.same(timers, [], 'nothing is probed')
  clocks.wallMs = 3_600_000
  circuit.fail({ reason: 'timeout' }, 'a')
  circuit.fail({ reason: 'refused' }, 'b')
  t.notOk(circuit.isUp())
  t.match(circuit.state(), { up: false, reason: 'timeout' })
  t.ok(Math.abs(circuit.state().since - Date.now()) < 10_000, 'since then')
  t.same(lines, [['warn', { reason: 'timeout' }, REDIS_UNAVAILABLE]])
  t.equal(timers.length, 1)
  t.ok(timers[0]?.isUnref, 'the process may end')
})

t.test('a probe asks for the key that failed, each time twice as late, a second at most', async t => {
  const { circuit, timers, probed, lines, probe } = world(t)
  circuit.fail({ reason: 'timeout' }, 'the key')
  for (let n = 0; n < 5; n++) await probe(new Error(`no ${n}`))
  t.same(delaysOf(timers), [100, 200, 400, 800, 1000, 1000])
  t.same(
    probed,
    Array.from({ length: 5 }, () => 'the key')
  )
  t.match(circuit.state(), { up: false, reason: 'fault no 4' }, 'the reason of now')
  t.equal(lines.length, 1, 'which is no change')
})

t.test('instances do not ask at the same moment: a quarter earlier or later', async t => {
  const { circuit, timers, probe } = world(t)
  Math.random = () => 0
  circuit.fail({ reason: 'timeout' }, 'a')
  Math.random = () => 1
  await probe(new Error('no'))
  t.same(delaysOf(timers), [75, 250])
})

t.test('the first answer brings Redis back, and says for how long it was away', async t => {
  const { circuit, clocks, timers, lines, ups, probe } = world(t)
  circuit.fail({ reason: 'timeout' }, 'a')
  const failedAt = circuit.state().since
  clocks.wallMs = 5_000
  await probe()
  t.ok(circuit.isUp())
  t.match(circuit.state(), { up: true, reason: undefined })
  t.ok(circuit.state().since - failedAt >= 5_000)
  t.equal(ups(), 1)
  const [level, fields, message] = lines[1] ?? []
  t.equal(level, 'info')
  t.equal(message, REDIS_AVAILABLE)
  const { downMs } = fields as { downMs: number }
  t.ok(downMs >= 5_000 && downMs < 15_000, `${downMs}`)
  t.equal(timers.length, 1, 'and nothing is asked any more')
})

t.test('a failure soon after is the same one and probed as late; after ten seconds it is a new one', async t => {
  const { circuit, clocks, timers, probe } = world(t)
  const failAgain = async () => {
    circuit.fail({ reason: 'timeout' }, 'a')
    await probe()
  }
  await failAgain()
  await failAgain()
  clocks.monotonicMs += 9_000
  await failAgain()
  t.same(delaysOf(timers), [100, 200, 400])
  clocks.monotonicMs += 10_001
  await failAgain()
  t.same(delaysOf(timers).slice(3), [100])
})

t.test('a closed circuit is not up, and neither asks nor changes any more', async t => {
  const { circuit, timers, lines, ups, probe } = world(t)
  circuit.fail({ reason: 'timeout' }, 'a')
  circuit.close()
  t.notOk(circuit.isUp())
  t.ok(timers[0]?.isCleared)
  await probe()
  t.equal(ups(), 0, 'an answer under way changes nothing')
  await probe(new Error('no'))
  t.equal(timers.length, 1)
  t.equal(lines.length, 1)

  const other = world(t)
  other.circuit.close()
  t.notOk(other.circuit.isUp())
  other.circuit.fail({ reason: 'timeout' }, 'a')
  t.match(other.circuit.state(), { up: true })
  t.same([other.timers, other.lines, other.ups()], [[], [], 0])
})
