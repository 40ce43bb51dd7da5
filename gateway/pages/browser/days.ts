// Turns days of the reader's calendar into times, and times into days, in the format of a date field.

export const dayOf = (date: Date): string => date.toLocaleDateString('sv')

/** A day of the year 9999 ends in it, since RFC 3339 has no later one (§1). */
export const endOfDay = (day: unknown): string => {
  const end = new Date(`${day}T23:59:59`)
  return end.getUTCFullYear() > 9999 ? '9999-12-31T23:59:59.000Z' : end.toISOString()
}

/** The selected days, complete; the last one of the year 9999 is followed by none. */
export const periodOf = (from: string, to: string): { since: string; until: string } => {
  const start = new Date(`${from}T00:00:00`)
  const end = new Date(`${to}T00:00:00`)
  end.setDate(end.getDate() + 1)
  const iso = (date: Date) => (date.getUTCFullYear() <= 9999 ? date.toISOString() : '')
  return { since: iso(start), until: iso(end) }
}
