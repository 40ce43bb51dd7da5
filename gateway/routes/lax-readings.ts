// Every way in which a lax backend could read a canonical path is at hand, as lists of decoded segments.
import { decode, isBlankOrDot, trimBlanks } from './canonical-path.ts'

/**
 * Segments as a backend may see them after decoding once more, merging slashes, cutting `;…` or what follows an encoded
 * `?` or `#`, and trimming blanks at the ends or dots at the end of a segment: each alone and all combined. Case is the
 * caller's. Empty segments are dropped. `depth` is the number of segments after which no route looks any further.
 */
export const laxReadings = (path: string, depth: number): string[][] => {
  const seen = new Map<string, string[]>()
  for (const structure of structures(path)) {
    for (const trim of TRIMS) {
      const segments = readSegments(structure, trim, depth)
      seen.set(segments.join('/'), segments)
    }
  }
  return [...seen.values()]
}

/** Case folded as a case-insensitive backend would: `ı` and `ſ`, the Kelvin sign and `ß` too. */
export const foldCase = (text: string): string => text.toUpperCase().toLowerCase()

const STRUCTURAL: readonly ((path: string) => string)[] = [
  path => path.replaceAll('%2F', '/'),
  path => path.replace(/(?:;|%3B)[^/]*/g, ''),
  path => path.replace(/%(?:23|3F).*$/s, '')
]

// Each step only shortens the text, so that the set is small and complete after a few rounds.
const structures = (path: string): Set<string> => {
  const found = new Set([path])
  if (!/[;%]/.test(path)) return found
  for (const known of found) for (const read of STRUCTURAL) found.add(read(known))
  return found
}

const TRIMS: readonly ((segment: string) => string)[] = [
  segment => segment,
  segment => trimBlanks(segment),
  segment => trimDots(segment),
  segment => trimBlanks(segment, isBlankOrDot)
]

const trimDots = (segment: string): string => {
  let end = segment.length
  while (end > 0 && segment.charAt(end - 1) === '.') end -= 1
  return segment.slice(0, end)
}

const readSegments = (path: string, trim: (segment: string) => string, depth: number): string[] => {
  const segments: string[] = []
  let start = 1
  while (start <= path.length && segments.length <= depth) {
    const slash = path.indexOf('/', start)
    const end = slash === -1 ? path.length : slash
    const raw = path.slice(start, end)
    const segment = trim(decode(raw) ?? raw)
    if (segment !== '') segments.push(segment)
    start = end + 1
  }
  return segments
}
