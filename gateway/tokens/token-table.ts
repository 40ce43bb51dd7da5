// Keeps live access tokens in flat columns, 66 bytes each, and finds one by the SHA-256 of its text.

/** A live token as stored in the database; times in seconds since the epoch. */
export interface PersonalTokenRow {
  readonly id: number
  readonly userId: number
  /** Buffer that contains its SHA-256, possibly among others: a view of each costs more than everything else. */
  readonly hashes: Buffer
  readonly hashAt: number
  /** Profiles named when it was created. */
  readonly profiles: readonly string[]
  /** The owner's access version when it was created. */
  readonly version: number
  readonly createdAt: number
  readonly expiresAt: number
}

/** The stored part of a token. */
export type KeptToken = Omit<PersonalTokenRow, 'hashes' | 'hashAt'>

interface TokenTable {
  /** The index of a token, or -1; valid until the next `retain`. */
  find(hash: Buffer): number
  /** A token that is already known stays unchanged. */
  add(token: PersonalTokenRow): void
  at(place: number): KeptToken
  /** Records its use in this minute (minutes since the epoch). */
  markUsed(place: number, minute: number): void
  usedMinute(place: number): number
  /** Removes those for which `isLive` is false. */
  retain(isLive: (token: KeptToken) => boolean): void
  size(): number
}

/** 32-bit words of a SHA-256. */
const WORDS = 8
const FIRST_CAPACITY = 256

const createColumns = (capacity: number) => ({
  capacity,
  hashes: new Uint32Array(capacity * WORDS),
  ids: new Int32Array(capacity),
  userIds: new Int32Array(capacity),
  lists: new Int32Array(capacity),
  versions: new Int32Array(capacity),
  usedMinutes: new Int32Array(capacity),
  createdAt: new Float64Array(capacity),
  expiresAt: new Float64Array(capacity),
  /** Open addressing by the first word of the hash, which is effectively random; an index + 1, or 0: free. */
  slots: new Int32Array(capacity * 2)
})

type Columns = ReturnType<typeof createColumns>

const isAt = (columns: Columns, place: number, words: Uint32Array): boolean => {
  for (let word = 0; word < WORDS; word++) if (columns.hashes[place * WORDS + word] !== words[word]) return false
  return true
}

/** The slot that contains this hash, or the free one where it belongs. */
const slotOf = (columns: Columns, words: Uint32Array): number => {
  const mask = columns.slots.length - 1
  let slot = (words[0] ?? 0) & mask
  for (;;) {
    const place = (columns.slots[slot] ?? 0) - 1
    if (place === -1 || isAt(columns, place, words)) return slot
    slot = (slot + 1) & mask
  }
}

const COLUMNS = ['ids', 'userIds', 'lists', 'versions', 'usedMinutes', 'createdAt', 'expiresAt'] as const

/** Takes the first free slot from its own position on, because no token is here twice. */
const claimSlot = ({ hashes, slots }: Columns, place: number): void => {
  const mask = slots.length - 1
  let slot = (hashes[place * WORDS] ?? 0) & mask
  while (slots[slot] !== 0) slot = (slot + 1) & mask
  slots[slot] = place + 1
}

const doubled = (columns: Columns, count: number): Columns => {
  const next = createColumns(columns.capacity * 2)
  next.hashes.set(columns.hashes)
  for (const name of COLUMNS) next[name].set(columns[name])
  for (let place = 0; place < count; place++) claimSlot(next, place)
  return next
}

const moveToken = (from: Columns, source: number, to: Columns, place: number): void => {
  to.hashes.set(from.hashes.subarray(source * WORDS, (source + 1) * WORDS), place * WORDS)
  for (const name of COLUMNS) to[name][place] = from[name][source] ?? 0
  claimSlot(to, place)
}

export const createTokenTable = (): TokenTable => {
  let columns = createColumns(FIRST_CAPACITY)
  let count = 0
  // Thousands of tokens name the same few profiles.
  const lists: (readonly string[])[] = []
  const listPlaces = new Map<string, number>()
  const bytes = Buffer.alloc(WORDS * 4)
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, WORDS)

  // Tokens that are read together share the same list, and need no key.
  let near: { readonly list: readonly string[]; readonly place: number } | undefined

  const listPlace = (profiles: readonly string[]): number => {
    if (near?.list !== profiles) near = { list: profiles, place: placeByKey(profiles) }
    return near.place
  }

  const placeByKey = (profiles: readonly string[]): number => {
    const key = profiles.join('\0')
    const known = listPlaces.get(key)
    if (known !== undefined) return known
    listPlaces.set(key, lists.length)
    return lists.push(profiles) - 1
  }

  const at = (place: number): KeptToken => ({
    id: columns.ids[place] ?? 0,
    userId: columns.userIds[place] ?? 0,
    profiles: lists[columns.lists[place] ?? 0] ?? [],
    version: columns.versions[place] ?? 0,
    createdAt: columns.createdAt[place] ?? 0,
    expiresAt: columns.expiresAt[place] ?? 0
  })

  return {
    find(hash) {
      hash.copy(bytes)
      return (columns.slots[slotOf(columns, words)] ?? 0) - 1
    },
    add(token) {
      if (count === columns.capacity) columns = doubled(columns, count)
      token.hashes.copy(bytes, 0, token.hashAt, token.hashAt + bytes.length)
      const slot = slotOf(columns, words)
      if (columns.slots[slot] !== 0) return
      columns.hashes.set(words, count * WORDS)
      columns.ids[count] = token.id
      columns.userIds[count] = token.userId
      columns.lists[count] = listPlace(token.profiles)
      columns.versions[count] = token.version
      columns.createdAt[count] = token.createdAt
      columns.expiresAt[count] = token.expiresAt
      count++
      columns.slots[slot] = count
    },
    at,
    markUsed(place, minute) {
      columns.usedMinutes[place] = minute
    },
    usedMinute: place => columns.usedMinutes[place] ?? 0,
    retain(isLive) {
      const next = createColumns(columns.capacity)
      let kept = 0
      for (let place = 0; place < count; place++) if (isLive(at(place))) moveToken(columns, place, next, kept++)
      columns = next
      count = kept
    },
    size: () => count
  }
}
