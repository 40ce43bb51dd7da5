// Lists mutants that no test can tell from the original, or whose difference nobody is promised, each with its reason.

export interface Equivalent {
  readonly module: string
  /** The line of the source that the mutant begins in, without indentation. */
  readonly line: string
  /** `original → replacement` as the run prints it; several when the reason is the same. */
  readonly changes: readonly string[]
  readonly reason: string
}

export const EQUIVALENT: readonly Equivalent[] = []
