// Collects the mistakes in route files, each with its place, and prints them in order; their words come from where each is found.
import type { SourceLocation } from '../values/source-location.ts'

/** One mistake (or, among warnings, one questionable entry). Lines and columns count from 1. */
export interface Complaint extends SourceLocation {
  readonly message: string
}

/** The route files cannot be used; `complaints` lists every mistake found, in order of place. */
export class RouteFileError extends Error {
  readonly complaints: readonly Complaint[]
  /** Warnings beside the mistakes. */
  readonly warnings: readonly Complaint[]

  constructor(complaints: readonly Complaint[], warnings: readonly Complaint[] = []) {
    super(complaints.map(formatComplaint).join('\n'))
    this.name = 'RouteFileError'
    this.complaints = complaints
    this.warnings = warnings
  }
}

/** `file:line:column` of a location. */
export const formatLocation = ({ file, line, column }: SourceLocation): string => `${file}:${line}:${column}`

/** `file:line:column: message`, which editors and terminals turn into a link. */
export const formatComplaint = (complaint: Complaint): string => `${formatLocation(complaint)}: ${complaint.message}`

/** Location of a part of an entry, by its path from there. */
export type LocationOf = (...path: (string | number)[]) => SourceLocation

/** Reports a part of an entry, by its path from there. */
export type Complain = (message: string, ...path: (string | number)[]) => undefined

export const complain = ({ file, line, column }: SourceLocation, message: string): Complaint => ({
  file,
  line,
  column,
  message
})

/** Reports a file or folder as a whole. */
export const aboutFile = (file: string, message: string): Complaint => ({ file, line: 1, column: 1, message })

/** Adds what is reported about an entry to the complaints. */
export const complainTo =
  (complaints: Complaint[], locationOf: LocationOf): Complain =>
  (message, ...path) => {
    complaints.push(complain(locationOf(...path), message))
  }

/** In order of location, without duplicates. */
export const sortComplaints = (complaints: readonly Complaint[]): Complaint[] => {
  const unique = new Map(complaints.map(complaint => [formatComplaint(complaint), complaint]))
  return [...unique.values()].sort((a, b) => compareLocations(a, b) || compare(a.message, b.message))
}

export const compareLocations = (a: SourceLocation, b: SourceLocation): number =>
  compare(a.file, b.file) || a.line - b.line || a.column - b.column

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
