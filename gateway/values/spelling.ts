// Finds the known name that a misspelt one was probably meant to be.

/** The known name with the smallest edit distance, ignoring case. */
export const nearest = (name: string, known: Iterable<string>): { name: string; edits: number } | undefined => {
  // Names that are further away are not typing mistakes.
  const wanted = name.slice(0, 64).toLowerCase()
  let best: { name: string; edits: number } | undefined
  for (const candidate of known) {
    const edits = editDistance(wanted, candidate.toLowerCase())
    if (best === undefined || edits < best.edits) best = { name: candidate, edits }
  }
  return best
}

/** ` (did you mean "x"?)` for the closest known name, or nothing if none is close. */
export const nearestHint = (name: string, known: Iterable<string>): string => {
  const best = nearest(name, known)
  const isNear = best !== undefined && best.edits <= Math.max(1, Math.floor(best.name.length / 3))
  return isNear ? ` (did you mean "${best.name}"?)` : ''
}

/** Edit distance of two words; two swapped neighbours count as one edit (optimal string alignment). */
const editDistance = (from: string, to: string): number => {
  let beforeLast: number[] = []
  let last = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let i = 1; i <= from.length; i++) {
    const row = [i]
    for (let j = 1; j <= to.length; j++) {
      const replaced = at(last, j - 1) + (from[i - 1] === to[j - 1] ? 0 : 1)
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      const swapped = isSwap ? at(beforeLast, j - 2) + 1 : Number.POSITIVE_INFINITY
      row.push(Math.min(at(last, j) + 1, at(row, j - 1) + 1, replaced, swapped))
    }
    beforeLast = last
    last = row
  }
  return at(last, to.length)
}

const at = (row: readonly number[], index: number): number => row[index] ?? Number.POSITIVE_INFINITY
