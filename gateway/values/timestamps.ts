// Reads dates and times as RFC 3339 writes them.

const DATE = String.raw`(\d{4})-(\d\d)-(\d\d)`
const TIMESTAMP = new RegExp(
  `^${DATE}(?:T(\\d\\d):(\\d\\d):(\\d\\d)(?:\\.\\d{1,9})?(?:Z|[+-](\\d\\d):(\\d\\d)))?$`,
  'i'
)

/** A `full-date`, meaning its beginning in UTC, or a `date-time`; undefined for anything else, and for dates that do not exist. */
export const parseTimestamp = (text: string): Date | undefined => {
  const match = TIMESTAMP.exec(text)
  if (match === null) return undefined
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, offsetHour = 0, offsetMinute = 0] = match
    .slice(1)
    .map(digits => Number(digits ?? 0))
  const daysInMonth = new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate()
  const exists = month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth
  if (!exists || hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) return undefined
  return new Date(text.toUpperCase())
}
