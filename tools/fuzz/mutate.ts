// Draws repeatable random values, changes known messages at random, and runs fuzzers side by side.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { words } from '../../test/support/words.ts'

/** One run of a fuzzer. */
export interface Fuzz {
  readonly seed: number
  /** Asked before each message, table or session, with how many are over. */
  readonly goesOn: (done: number) => boolean
  /** @param input which showed it, as text */
  readonly onFault: (fault: string, input: string) => void
}

export type Random = ReturnType<typeof createRandom>

export const createRandom = (seed: number) => {
  let state = seed
  /** From 0 to below 1 (mulberry32). */
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
  /** An integer from 0 to below `n`. */
  const below = (n: number): number => Math.floor(next() * n)
  const pick = <T>(items: readonly T[]): T => {
    if (items.length === 0) throw new Error('nothing to pick from')
    return items[below(items.length)] as T
  }
  return {
    next,
    below,
    pick,
    /** Whether something happens that does so in this share of cases. */
    chance: (share: number): boolean => next() < share,
    /** Up to so many of them, perhaps one twice. */
    some: <T>(items: readonly T[], most: number): T[] => Array.from({ length: below(most + 1) }, () => pick(items))
  }
}

/** Works in so many lanes at once until `goesOn` says no. */
export const inLanes = async (lanes: number, goesOn: () => boolean, work: () => Promise<void>): Promise<void> => {
  const lane = async () => {
    while (goesOn()) await work()
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}

/** Latin-1 texts of one folder of the corpus, in the order of their names. */
export const readCorpus = (direction: string): string[] => {
  const folder = join(import.meta.dirname, 'corpus', direction)
  return readdirSync(folder)
    .sort()
    .map(file => readFileSync(join(folder, file), 'latin1'))
}

const FIELDS =
  'Content-Length: 5|Content-Length: 0|content-length:+1|Content-Length: 18446744073709551617|Transfer-Encoding: chunked|' +
  'Transfer-Encoding:\tchunked|transfer-encoding: chunked, identity|Connection: close|' +
  'Connection: keep-alive, content-length|Expect: 100-continue|Upgrade: websocket|X-User-Id: 1|x_user_id: 1|' +
  'Trailer: X-A|Host: evil|Content-Type: text/event-stream|HTTP/1.1 200 OK'
const CONTROLS = ['\r\n', '\n', '\r', '\r\n\r\n', ' ', '\t', '\0', '\x0b', '\x7f', '\xa0', '\xff']
const CHUNKS = ['0\r\n\r\n', 'ffffffffffffffff\r\n', '-1\r\n', '0x1\r\n', '1;\r\nx\r\n']
// What parsers have disagreed about before (RFC 9112 §11.2).
export const PIECES = [
  ...CONTROLS,
  ...words`: , ; % %2e .. // \ HTTP/1.1 HTTP/1.0 HTTP/2.0`,
  ...CHUNKS,
  ...FIELDS.split('|').map(field => `${field}\r\n`)
]

// At the edges of what fields of formats hold.
const NUMBERS = ['0', '1', '-1', '00', '255', '256', '65535', '65536', '4294967296', '99999999999999999999', '1e3']

type Mutation = (text: string, random: Random, corpus: readonly string[], inserted: readonly string[]) => string

const cut = (text: string, at: number, length: number, by: string) => text.slice(0, at) + by + text.slice(at + length)
const lineAt = (text: string, random: Random) => {
  const lines = text.split('\r\n')
  return { lines, at: random.below(lines.length) }
}

const MUTATIONS: readonly Mutation[] = [
  (text, random, _corpus, inserted) => cut(text, random.below(text.length + 1), 0, random.pick(inserted)),
  (text, random) => cut(text, random.below(text.length + 1), 1, String.fromCharCode(random.below(256))),
  (text, random) => cut(text, random.below(text.length + 1), random.below(12), ''),
  (text, random) => text.slice(0, random.below(text.length + 1)),
  (text, random) => {
    const at = random.below(text.length + 1)
    return cut(text, at, 0, text.slice(at, at + random.below(80)))
  },
  (text, random) => {
    const { lines, at } = lineAt(text, random)
    return [...lines.slice(0, at), lines[at] ?? '', ...lines.slice(at)].join('\r\n')
  },
  (text, random) => {
    const { lines, at } = lineAt(text, random)
    return [...lines.slice(0, at), ...lines.slice(at + 1)].join('\r\n')
  },
  (text, random, _corpus, inserted) => {
    const { lines, at } = lineAt(text, random)
    return [...lines.slice(0, at), random.pick(inserted).replace(/\r\n$/, ''), ...lines.slice(at)].join('\r\n')
  },
  (text, random) => {
    const numbers = [...text.matchAll(/\d+/g)]
    const number = numbers[random.below(numbers.length)]
    return number === undefined ? text : cut(text, number.index, number[0].length, random.pick(NUMBERS))
  },
  (text, random) =>
    text.slice(0, random.below(text.length + 1)) + random.pick(['', '\r\n']) + 'a'.repeat(random.below(40_000)),
  (text, random, corpus) => text + random.pick(corpus),
  (text, random, corpus) => {
    const other = random.pick(corpus)
    return text.slice(0, random.below(text.length + 1)) + other.slice(random.below(other.length + 1))
  },
  text => text
]

/** One message of the corpus, changed up to four times; `words` are inserted whole. */
export const mutate = (corpus: readonly string[], random: Random, words: readonly string[] = PIECES): string => {
  let text = random.pick(corpus)
  for (let left = random.below(5); left > 0; left--) text = random.pick(MUTATIONS)(text, random, corpus, words)
  return text
}

/** Cuts bytes into one to six pieces, as networks do, sometimes into single bytes; cuts prefer the neighbourhood of line ends. */
export const splitBytes = (bytes: Buffer, random: Random): Buffer[] => {
  if (bytes.length < 200 && random.below(8) === 0) return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
  const cuts = Array.from({ length: random.below(6) }, () => cutIn(bytes, random)).sort((a, b) => a - b)
  return [0, ...cuts]
    .map((from, index) => bytes.subarray(from, cuts[index] ?? bytes.length))
    .filter(({ length }) => length > 0)
}

const cutIn = (bytes: Buffer, random: Random): number => {
  const at = random.below(bytes.length + 1)
  if (random.below(2) === 0) return at
  const line = bytes.indexOf(10, at)
  return line === -1 ? at : Math.min(bytes.length, Math.max(0, line - 1 + random.below(3)))
}
