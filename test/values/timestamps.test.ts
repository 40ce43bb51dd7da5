// Dates and times are those of RFC 3339 that exist, and nothing else is one.
import t from 'tap'
import { parseTimestamp } from '../../gateway/values/timestamps.ts'
import { fc } from '../support/worlds.ts'

const two = (number: number) => String(number).padStart(2, '0')

// RV-72
t.test('exactly the dates of the calendar are dates', async t => {
  let wrong = ''
  for (const year of [1900, 2000, 2024, 2026, 2027, 2100]) {
    for (let month = 0; month <= 13; month++) {
      for (let day = 0; day <= 32; day++) {
        const text = `${year}-${two(month)}-${two(day)}`
        const date = new Date(Date.UTC(year, month - 1, day))
        const exists = date.getUTCMonth() === month - 1 && date.getUTCDate() === day
        if (parseTimestamp(text)?.getTime() !== (exists ? date.getTime() : undefined)) wrong = text
      }
    }
  }
  t.equal(wrong, '')
})

t.test('a time is read in its offset', async () => {
  const arbitrary = fc.record({
    at: fc.date({ min: new Date('1970-01-02T00:00:00Z'), max: new Date('2999-12-30T00:00:00Z'), noInvalidDate: true }),
    minutes: fc.integer({ min: -14 * 60, max: 14 * 60 }),
    lower: fc.boolean()
  })
  fc.assert(
    fc.property(arbitrary, ({ at, minutes, lower }) => {
      const local = new Date(at.getTime() + minutes * 60_000).toISOString().slice(0, -1)
      const size = Math.abs(minutes)
      const offset = `${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`
      const texts = [`${local}${offset}`, at.toISOString()].map(text => (lower ? text.toLowerCase() : text))
      return texts.every(text => parseTimestamp(text)?.getTime() === at.getTime())
    })
  )
})

t.test('other spellings are none', async t => {
  for (const text of [
    '',
    '2027',
    '2027-01',
    '01/02/2027',
    'Dec 31 2026',
    '2027-02-30',
    '20270101',
    '2027-1-1',
    '2027-001',
    '2027-W01-1',
    '2027-01-01T00:00Z',
    '2027-01-01T00:00:00',
    '2027-01-01 00:00:00Z',
    '2027-01-01T24:00:00Z',
    '2027-01-01T00:60:00Z',
    '2027-01-01T23:59:60Z',
    '2027-01-01T00:00:00.Z',
    '2027-01-01T00:00:00+0100',
    '2027-01-01T00:00:00+24:00',
    '2027-01-01T00:00:00Z ',
    ' 2027-01-01',
    '+002027-01-01',
    '1798761600',
    'tomorrow'
  ])
    t.equal(parseTimestamp(text), undefined, text)
})
