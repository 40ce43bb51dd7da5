// Describes a location in a file.

/** For complaints and `explain`. Lines and columns count from 1. */
export interface SourceLocation {
  readonly file: string
  readonly line: number
  readonly column: number
}
