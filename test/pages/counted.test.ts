// What a chart of the console counts is what happened, and a day that was chosen is one that the gateway can read.
import t from 'tap'
import { countedEvery, dayOf, endOfDay } from '../../gateway/pages/browser/times.ts'
import { parseTimestamp } from '../../gateway/values/quantities.ts'

const STEP_MS = 5_000
const MINUTE_MS = 60_000
const FOUR = '2026-11-22T04:00:00Z'

t.test('one login is one, in whichever step it happened; a step that began before the period is left out', t => {
  const logins = [0, 0, 1, ...Array(9).fill(0), 2, 0, 0, 1]
  for (const [what, begin, counts, widthMs, minutes, expected] of [
    ['by the minute', FOUR, logins, MINUTE_MS, [0, 1], [1, 3]],
    ['step by step', FOUR, logins, STEP_MS, undefined, logins],
    ['from the middle of a minute', '2026-11-22T04:00:30Z', [5, 5, 5, 5, 5, 5, 1], MINUTE_MS, [1], [1]],
    ['nothing', FOUR, [], MINUTE_MS, [], []]
  ] as const) {
    const points = counts.map((count, i) => ({ at: new Date(Date.parse(begin) + i * STEP_MS).toISOString(), count }))
    const { at, of } = countedEvery(points, STEP_MS, widthMs)
    const values = of(({ count }) => count)
    t.same(values, expected, what)
    if (minutes)
      t.same(
        at,
        minutes.map(minute => Date.parse(FOUR) + minute * MINUTE_MS),
        what
      )
  }
  t.end()
})

t.test('an account can expire on the last day of the year 9999, in whatever time zone', t => {
  const before = process.env.TZ
  t.teardown(() => {
    if (before === undefined) delete process.env.TZ
    else process.env.TZ = before
  })
  for (const [zone, expected] of [
    ['America/Sao_Paulo', '9999-12-31T23:59:59.000Z'],
    ['UTC', '9999-12-31T23:59:59.000Z'],
    ['Asia/Tokyo', '9999-12-31T14:59:59.000Z']
  ] as const) {
    process.env.TZ = zone
    const end = parseTimestamp(endOfDay('9999-12-31'))
    t.equal(end?.toISOString(), expected, zone)
    t.equal(end && dayOf(end), '9999-12-31', zone)
    t.equal(parseTimestamp(endOfDay('2027-06-30'))?.getTime(), new Date('2027-06-30T23:59:59').getTime(), zone)
  }
  t.end()
})
