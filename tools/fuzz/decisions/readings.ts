// Lists by brute force what a lax backend may read in a path, written from the contract without a look at the gateway's own reading.

/** How a backend compares the text of a segment with that of a route. */
export type View = (segment: string) => string

export const decoded: View = segment => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

const LETTERS: Readonly<Record<string, string>> = {
  '\u0130': 'i',
  '\u0131': 'i',
  '\u017f': 's',
  '\u212a': 'k',
  '\u00df': 'ss',
  '\u1e9e': 'ss'
}

/** Without case, with the letters that fold to ASCII. */
export const folded: View = segment =>
  [...decoded(segment)]
    .map(character => LETTERS[character] ?? character)
    .join('')
    .normalize('NFKC')
    .toLowerCase()

/** Whole paths, still encoded. */
const HABITS: readonly ((path: string) => string)[] = [
  path => path.replaceAll('%2F', '/'),
  path => path.replace(/(?:;|%3B)[^/]*/g, ''),
  path => path.replace(/(?:%23|%3F).*$/, ''),
  // Classic ASP.NET, and streams of NTFS.
  path => path.replace(/\/(?:\(|%28)(?:[A-Z](?:\(|%28)[^)/]*?(?:\)|%29))+(?:\)|%29)/g, ''),
  path => path.replace(/(?::|%3A)(?:(?!%3A)[^/:])*(?::|%3A)(?:\$|%24)[^/]*/g, '')
]

const BLANK = '[\\s\\u00ad\\u180e\\u200b-\\u200f\\u2060\\ufeff]'
const TRIMS: readonly ((segment: string) => string)[] = [
  segment => segment.replaceAll('+', ' '),
  segment => segment.replace(new RegExp(`^${BLANK}+|${BLANK}+$`, 'gu'), ''),
  segment => segment.replace(/\.+$/, '')
]

/** Everything that the steps lead to, in any order and number. */
const closure = <T>(start: readonly T[], steps: readonly ((item: T) => T)[], keyOf: (item: T) => string): T[] => {
  const found = new Map(start.map(item => [keyOf(item), item]))
  for (const item of found.values())
    for (const step of steps) {
      const next = step(item)
      if (!found.has(keyOf(next))) found.set(keyOf(next), next)
    }
  return [...found.values()]
}

export const segmentsOf = (path: string): string[] => {
  const segments = path.split('/').slice(1)
  if (segments.at(-1) === '') segments.pop()
  return segments
}

const key = (segments: readonly string[]) => segments.join('\0')

interface Reading {
  /** Decoded, without empty ones. */
  readonly segments: string[]
  /** Something, perhaps nothing but a slash, follows the last segment. */
  readonly endsOpen: boolean
}

const allReadings = (path: string): Reading[] => {
  const structures = closure([path], HABITS, text => text)
  const steps = TRIMS.map(trim => (segments: string[]) => segments.map(trim))
  const found = structures.flatMap(text =>
    closure([text.split('/').slice(1).map(decoded)], steps, key).map(segments => ({
      segments: segments.filter(segment => segment !== ''),
      endsOpen: segments.at(-1) === ''
    }))
  )
  return closure(found, [], ({ segments, endsOpen }) => `${key(segments)}\0${endsOpen}`)
}

export const readings = (path: string): string[][] => allReadings(path).map(({ segments }) => segments)

const SCRIPT = /\.(?:php\d?|phtml|f?cgi|pl|py|rb|aspx?|cfm)$/i
export const isScript = (segment: string): boolean => SCRIPT.test(segment)

const isOnTheWay = ({ segments, endsOpen }: Reading, index: number): boolean =>
  (endsOpen || index < segments.length - 1) && isScript(segments[index] ?? '')

/** Each script on the way (RFC 3875 §4.1.5), which runs whatever follows. */
const scriptsIn = (reading: Reading): string[][] =>
  reading.segments.flatMap((_, index) => (isOnTheWay(reading, index) ? [reading.segments.slice(0, index + 1)] : []))

/** As the application behind a script routes by what follows it. */
const withoutScripts = (reading: Reading): string[] =>
  reading.segments.filter((_, index) => !isOnTheWay(reading, index))

/** Without a format at the end: cut at the last dot, or the first. */
const cutFormats = (segments: readonly string[]): string[][] => {
  const last = segments.at(-1) ?? ''
  const cuts = new Set([last.lastIndexOf('.'), last.indexOf('.')].filter(at => at !== -1))
  return [...cuts].flatMap(at => {
    const cut = last.slice(0, at)
    const bare = cut.replace(new RegExp(`^${BLANK}+`, 'u'), '').replace(new RegExp(`(?:${BLANK}|\\.)+$`, 'u'), '')
    return [cut, bare].map(name => {
      if (name === '..') return segments.slice(0, -2)
      return name === '' ? segments.slice(0, -1) : [...segments.slice(0, -1), name]
    })
  })
}

/** What servers that run scripts may run. */
export const scriptReadings = (path: string): string[][] =>
  allReadings(path).flatMap(reading => [...scriptsIn(reading), withoutScripts(reading)])

/** What servers that serve formats may serve. */
export const formatReadings = (path: string, runsScripts: boolean): string[][] =>
  allReadings(path)
    .flatMap(reading => [reading.segments, ...(runsScripts ? [withoutScripts(reading)] : [])])
    .flatMap(cutFormats)
