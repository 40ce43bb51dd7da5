// What a chart of the console counts is what happened.
import t from 'tap'
import { countedEvery } from '../../gateway/pages/browser/counted.ts'

const STEP_MS = 5_000
const pointsFrom = (begin: string, logins: readonly number[]) =>
  logins.map((count, i) => ({ at: new Date(Date.parse(begin) + i * STEP_MS).toISOString(), count }))

t.test('one login is one, in whichever step of a minute it happened', async t => {
  const points = pointsFrom('2026-11-22T04:00:00Z', [0, 0, 1, ...Array(9).fill(0), 2, 0, 0, 1])
  const { at, of } = countedEvery(points, STEP_MS, 60_000)
  t.same(at, [Date.parse('2026-11-22T04:00:00Z'), Date.parse('2026-11-22T04:01:00Z')])
  t.same(
    of(({ count }) => count),
    [1, 3]
  )
  t.same(
    countedEvery(points, STEP_MS, STEP_MS).of(({ count }) => count),
    points.map(({ count }) => count)
  )
})

t.test('a minute that began before the period is left out: its count would be of a part', async t => {
  const { at, of } = countedEvery(pointsFrom('2026-11-22T04:00:30Z', [5, 5, 5, 5, 5, 5, 1]), STEP_MS, 60_000)
  t.same(at, [Date.parse('2026-11-22T04:01:00Z')])
  t.same(
    of(({ count }) => count),
    [1]
  )
  t.same(countedEvery([], STEP_MS, 60_000).at, [])
})
