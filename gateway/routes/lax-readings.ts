// Lists every way in which a lax backend could read a canonical path, as decoded segments.
import { decode, isBlankOrDot, trimBlanks } from './canonical-path.ts'

/**
 * Segments as a backend may see them after decoding once more, merging slashes, cutting `;…` or what follows an encoded
 * `?` or `#`, taking `+` for a blank, and trimming blanks at the ends or dots at the end of a segment: each alone and all
 * combined. Case is the caller's. Empty segments are dropped. `depth` is the number of segments after which no route
 * looks any further.
 */
export const laxReadings = (path: string, depth: number): string[][] => {
  const seen = new Map<string, string[]>()
  const readings = /\+|%2B/.test(path) ? TRIMS_WITH_PLUS : TRIMS
  for (const structure of structures(path)) {
    for (const read of readings) {
      const segments = readSegments(structure, read, depth)
      seen.set(segments.join('/'), segments)
    }
  }
  return [...seen.values()]
}

/**
 * The readings of backends that take the end of the last segment, from its last dot, for a format (Rails, Spring, chi);
 * empty when there is none, or when it lies where no route looks.
 */
export const formatReadings = (segments: readonly string[], depth: number): string[][] => {
  const last = segments.at(-1)
  const dot = last?.lastIndexOf('.') ?? -1
  if (last === undefined || dot === -1 || segments.length > depth + 1) return []
  const before = segments.slice(0, -1)
  const cut = last.slice(0, dot)
  const bare = /[\w-]$/.test(cut) && /^[\w-]/.test(cut) ? cut : trimBlanks(cut, isBlankOrDot)
  return (bare === cut ? [cut] : [cut, bare]).map(name => {
    // `...` and `...json` leave a dot segment, which leads up.
    if (name === '..') return before.slice(0, -1)
    return name === '' ? before : [...before, name]
  })
}

/**
 * Case folded as a case-insensitive backend would: `ı` and `ſ`, the Kelvin sign and `ß` too, and `İ` (U+0130) as Java
 * folds it, character by character.
 */
export const foldCase = (text: string): string => text.replaceAll('\u0130', 'i').toUpperCase().toLowerCase()

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

const TRIMS_WITH_PLUS = [...TRIMS, ...TRIMS.map(trim => (segment: string) => trim(segment.replaceAll('+', ' ')))]

const trimDots = (segment: string): string => {
  let end = segment.length
  while (end > 0 && segment.charAt(end - 1) === '.') end -= 1
  return segment.slice(0, end)
}

const readSegments = (path: string, trim: (segment: string) => string, depth: number): string[] => {
  const segments: string[] = []
  let start = 1
  // One more than routes look at, so that it is seen whether the last one is the path's.
  while (start <= path.length && segments.length <= depth + 1) {
    const slash = path.indexOf('/', start)
    const end = slash === -1 ? path.length : slash
    const raw = path.slice(start, end)
    const segment = trim(decode(raw) ?? raw)
    if (segment !== '') segments.push(segment)
    start = end + 1
  }
  return segments
}
