// The last permits of a window reach whoever asks, although other instances fetched them in advance. RV-41
// Timed by the clock of the machine.
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { countedInRedis, startLimiter } from '../support/limiters.ts'
import { startRedis } from '../support/redis.ts'

const startThree = async (t: Test) => {
  const { url } = await startRedis(t)
  return Promise.all([startLimiter(t, url), startLimiter(t, url), startLimiter(t, url)])
}

/** A turn later than this keeps holders from returning their permits in time. */
const LATE_MS = 20

t.test('a client that sends exactly max, 1 ms apart, to any of three instances is never refused', async t => {
  const limiters = await startThree(t)
  for (let round = 0; round < 5; round++) {
    const verdicts = await countedInRedis(
      limiters,
      async attempt => {
        const asked = []
        for (let n = 0; n < 300; n++) {
          asked.push(limiters[Math.floor(Math.random() * 3)]?.take('global', `${round} ${attempt}`, 300, 60_000))
          await delay(1)
        }
        return Promise.all(asked)
      },
      LATE_MS
    )
    t.equal(verdicts.filter(verdict => verdict?.allowed).length, 300)
  }
})

t.test('exactly max at once, over three instances: all pass; one more is refused with nothing left', async t => {
  const limiters = await startThree(t)
  const verdicts = await countedInRedis(
    limiters,
    async attempt => {
      const take = (_: unknown, n: number) => limiters[n % 3]?.take('global', `${attempt}`, 1000, 60_000)
      const all = await Promise.all(Array.from({ length: 1000 }, take))
      return [...all, await take(0, 0)]
    },
    LATE_MS
  )
  t.equal(verdicts.filter(verdict => verdict?.allowed).length, 1000)
  t.match(verdicts.at(-1), { allowed: false, remaining: 0 })
})
