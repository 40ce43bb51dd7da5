// Lists every way in which a lax backend could read a canonical path, as decoded segments.
import { decode, isBlankOrDot, trimBlanks } from './canonical-path.ts'

/**
 * Segments as a backend may see them after decoding again, merging slashes, cutting `;…`, `/(S(…))`, `::$…` or what follows an
 * encoded `?` or `#`, reading `+` as a blank, and trimming blanks at the ends or dots at the end of a segment: each alone and all
 * combined. The caller handles case. Empty segments are dropped. No route looks further than `depth`
 * segments.
 */
export const laxReadings = (path: string, depth: number): string[][] => readingsOf(path, depth, false)

/**
 * The lax readings of a path that runs a script and passes the rest to it (`/index.php/admin`; RFC 3875 §4.1.5), as that
 * script's application routes them: without the script. Empty if the path names none.
 */
export const scriptReadings = (path: string, depth: number): string[][] =>
  SCRIPT_ON_THE_WAY.test(path) ? readingsOf(path, depth, true) : []

/** The lax readings of such a path as each script on the way, which a server runs whatever follows its name. */
export const scriptsOnTheWay = (path: string, depth: number): string[][] =>
  SCRIPT_ON_THE_WAY.test(path) ? laxReadings(path, depth).flatMap(cutAfterScripts) : []

const cutAfterScripts = (segments: readonly string[]): string[][] =>
  segments.flatMap((segment, index) =>
    index + 1 < segments.length && SCRIPT.test(segment) ? [segments.slice(0, index + 1)] : []
  )

/** Whether some reading of this segment of a path is the name of a script. */
export const mayBeScript = (segment: string): boolean => SCRIPT_PERHAPS.test(segment)

const SCRIPT_SUFFIX = String.raw`\.(?:php\d?|phtml|f?cgi|pl|py|rb|aspx?|cfm)`
const SCRIPT = new RegExp(`${SCRIPT_SUFFIX}$`, 'i')
// What follows may be cut off: an escape, a parameter, a dot.
const SCRIPT_PERHAPS = new RegExp(`${SCRIPT_SUFFIX}(?![a-z0-9_~-])`, 'i')
const SCRIPT_ON_THE_WAY = new RegExp(`${SCRIPT_SUFFIX}[^a-z0-9_~-]`, 'i')

const readingsOf = (path: string, depth: number, skipsScripts: boolean): string[][] => {
  if (hasOneReading(path)) return [readSegments(path, asWritten, depth, skipsScripts)]
  const seen = new Map<string, string[]>()
  const readings = /\+|%2B/.test(path) ? TRIMS_WITH_PLUS : TRIMS
  for (const structure of structures(path)) {
    for (const read of readings) {
      const segments = readSegments(structure, read, depth, skipsScripts)
      // Not by `/`, which a decoded segment may contain.
      seen.set(segments.join('\0'), segments)
    }
  }
  return [...seen.values()]
}

/**
 * The readings of backends that take the end of the last segment for a format, from its last dot (Rails, chi) or its first
 * (Spring's suffix matching); empty if there is none, or if it is beyond what any route looks at.
 */
export const formatReadings = (segments: readonly string[], depth: number): string[][] => {
  const last = segments.at(-1) ?? ''
  const dot = last.lastIndexOf('.')
  if (dot === -1 || segments.length > depth + 1) return []
  const before = segments.slice(0, -1)
  const firstDot = last.indexOf('.')
  const cuts = firstDot === dot ? [last.slice(0, dot)] : [last.slice(0, dot), last.slice(0, firstDot)]
  return cuts.flatMap(withoutBlanks).map(name => {
    // `...` and `...json` leave a dot segment, which leads upwards.
    if (name === '..') return before.slice(0, -1)
    return name === '' ? before : [...before, name]
  })
}

const withoutBlanks = (cut: string): string[] => {
  const bare = trimBlanks(cut, isBlankOrDot)
  return bare === cut ? [cut] : [cut, bare]
}

/**
 * In lower case, as a case-insensitive backend reads it: also `ı` and `ſ`, the Kelvin sign, `ß` and `ẞ` (U+1E9E), and `İ` (U+0130)
 * as Java folds it, character by character. Without characters that are never shown (MediaWiki's titles: U+200E, U+200F and U+202A
 * to U+202E; HFS+: also U+200C, U+200D, U+FEFF), and then normalized (UAX #15), as some file systems and Nextcloud read it.
 */
export const foldLetters = (text: string): string =>
  /^[\x00-\x7f]*$/.test(text)
    ? text.toLowerCase()
    : text
        .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
        .normalize('NFKC')
        .replaceAll('\u0130', 'i')
        .replaceAll('\u1e9e', 'ss')
        .toUpperCase()
        .toLowerCase()

// `/(S(…))`: classic ASP.NET takes sessions and tickets off the path before anything else sees it, whether an application uses
// them or not (System.Web, CookielessHelper).
const SESSION_IN_PATH = /\/(?:\(|%28)(?:[A-Z](?:\(|%28)(?:(?!%29)[^/)])*(?:\)|%29))+(?:\)|%29)/g

// Parameters; and NTFS, where a file is its stream `file::$DATA`, and a directory `directory:$I30:$INDEX_ALLOCATION` (MS-FSCC
// §2.1.5). In one step, because each step multiplies the readings.
const TAIL = /(?:(?:;|%3B)|(?::|%3A)(?:(?!%3A)[^/:])*(?::|%3A)(?:\$|%24))[^/]*/g

const STRUCTURAL: readonly ((path: string) => string)[] = [
  path => path.replaceAll('%2F', '/'),
  path => path.replace(TAIL, ''),
  path => path.replace(/%(?:23|3F).*/s, ''),
  path => path.replace(SESSION_IN_PATH, '')
]

/** Whether a path has one reading, but for its case, as most have. */
export const hasOneReading = (path: string): boolean => !/[+;%]|:\$|\/\/|\.(?:\/|$)|\/\([A-Z]\(/.test(path)

// Once for each step, and for sessions twice, as ASP.NET: nested ones would otherwise take a round for each.
const ROUNDS = 5

const structures = (path: string): Set<string> => {
  const found = new Set([path])
  let round = 0
  let last: string | undefined = path
  // Also goes through what it adds.
  for (const text of found) {
    for (const read of STRUCTURAL) found.add(read(text))
    if (text !== last) continue
    if (++round === ROUNDS) break
    last = [...found].at(-1)
  }
  return found
}

const asWritten = (segment: string): string => segment

const TRIMS: readonly ((segment: string) => string)[] = [
  asWritten,
  segment => trimBlanks(segment),
  segment => trimDots(segment),
  segment => trimBlanks(segment, isBlankOrDot)
]

const TRIMS_WITH_PLUS = [...TRIMS, ...TRIMS.map(trim => (segment: string) => trim(segment.replaceAll('+', ' ')))]

const trimDots = (segment: string): string => {
  let end = segment.length
  while (segment.charAt(end - 1) === '.') end -= 1
  return segment.slice(0, end)
}

const readSegments = (
  path: string,
  trim: (segment: string) => string,
  depth: number,
  skipsScripts: boolean
): string[] => {
  const segments: string[] = []
  let start = 1
  // One more than routes look at, so that it is known whether the last one is the path's.
  while (start <= path.length && segments.length <= depth + 1) {
    const slash = path.indexOf('/', start)
    const end = slash === -1 ? path.length : slash
    const raw = path.slice(start, end)
    const segment = trim(decode(raw) ?? raw)
    const isSkipped = skipsScripts && slash !== -1 && SCRIPT.test(segment)
    if (segment !== '' && !isSkipped) segments.push(segment)
    start = end + 1
  }
  return segments
}
