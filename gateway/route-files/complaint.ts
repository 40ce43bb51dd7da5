// What is wrong with a route file is said with its place, and all of it at once.
import type { Place } from '../routes/route.ts'

/** One mistake (or, among warnings, one oddity). Lines and columns count from 1. */
export interface Complaint extends Place {
  readonly message: string
}

/** The route files cannot be used; `complaints` lists every mistake found, in order of place. */
export class RouteFileError extends Error {
  readonly complaints: readonly Complaint[]

  constructor(complaints: readonly Complaint[]) {
    super(complaints.map(formatComplaint).join('\n'))
    this.name = 'RouteFileError'
    this.complaints = complaints
  }
}

/** `file:line:column: message`, which editors and terminals turn into a link. */
export const formatComplaint = ({ file, line, column, message }: Complaint): string =>
  `${file}:${line}:${column}: ${message}`

/** Place of a part of an entry by its path from there. */
export type PlaceOf = (...path: (string | number)[]) => Place

export const complain = ({ file, line, column }: Place, message: string): Complaint => ({ file, line, column, message })

/** In order of place, each once. */
export const sortComplaints = (complaints: readonly Complaint[]): Complaint[] => {
  const unique = new Map(complaints.map(complaint => [formatComplaint(complaint), complaint]))
  return [...unique.values()].sort(
    (a, b) => compare(a.file, b.file) || a.line - b.line || a.column - b.column || compare(a.message, b.message)
  )
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** ` (did you mean "x"?)` for the nearest known name, or nothing when none is near. */
export const nearestHint = (name: string, known: Iterable<string>): string => {
  let best: { name: string; distance: number } | undefined
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase())
    if (best === undefined || distance < best.distance) best = { name: candidate, distance }
  }
  const isNear = best !== undefined && best.distance <= Math.max(1, Math.floor(best.name.length / 3))
  return isNear ? ` (did you mean "${best?.name}"?)` : ''
}

// Optimal string alignment: a swap of neighbours is one edit. Long names are no typing mistakes.
const editDistance = (a: string, b: string): number => {
  if (Math.abs(a.length - b.length) > 4 || a.length > 64) return Number.POSITIVE_INFINITY
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      let best = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + cost)
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwap) best = Math.min(best, (beforeLast[j - 2] ?? 0) + 1)
      row.push(best)
    }
    beforeLast = last
    last = row
  }
  return last[b.length] ?? Number.POSITIVE_INFINITY
}
