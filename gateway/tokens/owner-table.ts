// Keeps the owners of live access tokens in flat columns, about 130 bytes each, and rebuilds one on demand.
import type { AccountProvider, User } from '../identity.ts'

/** The owner of a live token, as the database knows them. */
export interface TokenOwner {
  readonly user: User
  readonly version: number
  readonly lowestAccepted: number
  readonly disabled: boolean
  /** When a login or a recheck last confirmed them; seconds since the epoch. */
  readonly confirmedAt: number
}

interface OwnerTable {
  /** The index of a person, or -1; valid until the next `retain`. */
  find(userId: number): number
  /** Adds an owner, or replaces the stored data. */
  set(owner: TokenOwner): void
  at(place: number): TokenOwner
  isDisabled(place: number): boolean
  lowestAccepted(place: number): number
  confirmedAt(place: number): number
  /** Changes with each `set`. */
  revision(place: number): number
  /** Removes those who are not in it. */
  retain(userIds: ReadonlySet<number>): void
  size(): number
}

/** Fields that thousands of people share. */
type Access = Pick<User, 'provider' | 'profiles' | 'areas' | 'areaPrincipal' | 'accessStatus'>

const FIRST_CAPACITY = 256
/** Maximum value of a UTF-16 unit. */
const MAX_UTF8_BYTES = 3
/** No text of the database contains it (PostgreSQL documentation, 8.3). */
const BETWEEN = '\0'

const createColumns = (capacity: number) => ({
  capacity,
  ids: new Int32Array(capacity),
  accesses: new Int32Array(capacity),
  versions: new Int32Array(capacity),
  lowestAccepted: new Int32Array(capacity),
  revisions: new Int32Array(capacity),
  disabled: new Uint8Array(capacity),
  confirmedAt: new Float64Array(capacity),
  /** Where their texts begin, and their length in bytes. */
  textAt: new Uint32Array(capacity),
  textLength: new Uint32Array(capacity),
  /** Open addressing by the id; an index + 1, or 0: free. */
  slots: new Int32Array(capacity * 2)
})

type Columns = ReturnType<typeof createColumns>

const COLUMNS = [
  'ids',
  'accesses',
  'versions',
  'lowestAccepted',
  'revisions',
  'disabled',
  'confirmedAt',
  'textAt',
  'textLength'
] as const

/** The slot that contains this id, or the free one where it belongs. Fibonacci hashing, because ids are consecutive. */
const slotOf = ({ ids, slots }: Columns, userId: number): number => {
  const mask = slots.length - 1
  let slot = (Math.imul(userId, 0x9e3779b1) >>> 7) & mask
  for (;;) {
    const place = (slots[slot] ?? 0) - 1
    if (place === -1 || ids[place] === userId) return slot
    slot = (slot + 1) & mask
  }
}

const copyOwner = (from: Columns, source: number, to: Columns, place: number): void => {
  for (const name of COLUMNS) to[name][place] = from[name][source] ?? 0
  to.slots[slotOf(to, to.ids[place] ?? 0)] = place + 1
}

const doubled = (columns: Columns, count: number): Columns => {
  const next = createColumns(columns.capacity * 2)
  for (const name of COLUMNS) next[name].set(columns[name])
  for (let place = 0; place < count; place++) next.slots[slotOf(next, next.ids[place] ?? 0)] = place + 1
  return next
}

/** For two with one list of areas. */
const isSame = (a: Access, b: Access): boolean =>
  a.profiles === b.profiles &&
  a.provider === b.provider &&
  a.areaPrincipal === b.areaPrincipal &&
  a.accessStatus === b.accessStatus

const createAccesses = () => {
  const lists: Access[] = []
  const places = new Map<string, number>()
  /** By the identity of the list of areas: people who are read together share it, and need no key. */
  const near = new WeakMap<readonly string[], number[]>()

  const placeByKey = (access: Access): number => {
    const { provider, profiles, areas, areaPrincipal, accessStatus } = access
    const single = `${provider}\0${areaPrincipal}\0${accessStatus}`
    const key = `${single}\n${profiles.join(BETWEEN)}\n${areas.join(BETWEEN)}`
    const known = places.get(key)
    if (known !== undefined) return known
    places.set(key, lists.length)
    const place = lists.push({ provider, profiles, areas, areaPrincipal, accessStatus }) - 1
    const others = near.get(areas)
    if (others === undefined) near.set(areas, [place])
    else others.push(place)
    return place
  }

  return {
    at: (place: number): Access | undefined => lists[place],
    placeOf(access: Access): number {
      for (const place of near.get(access.areas) ?? []) {
        const other = lists[place]
        if (other !== undefined && isSame(other, access)) return place
      }
      return placeByKey(access)
    }
  }
}

export const createOwnerTable = (): OwnerTable => {
  let columns = createColumns(FIRST_CAPACITY)
  let count = 0
  let accesses = createAccesses()
  let texts = Buffer.alloc(FIRST_CAPACITY * 64)
  let textEnd = 0

  /** Makes room for this many more bytes; texts that nothing refers to any longer are dropped. */
  const makeRoom = (bytes: number): void => {
    if (textEnd + bytes <= texts.length) return
    let live = 0
    for (let place = 0; place < count; place++) live += columns.textLength[place] ?? 0
    const next = Buffer.alloc(Math.ceil(1.5 * (live + bytes)))
    textEnd = 0
    for (let place = 0; place < count; place++) {
      const [at = 0, length = 0] = [columns.textAt[place], columns.textLength[place]]
      texts.copy(next, textEnd, at, at + length)
      columns.textAt[place] = textEnd
      textEnd += length
    }
    texts = next
  }

  const textOf = (place: number): string => {
    const at = columns.textAt[place] ?? 0
    return texts.toString('utf8', at, at + (columns.textLength[place] ?? 0))
  }

  const writeText = (place: number, text: string): void => {
    if (textOf(place) === text) return
    columns.textLength[place] = 0
    makeRoom(text.length * MAX_UTF8_BYTES)
    columns.textAt[place] = textEnd
    const length = texts.write(text, textEnd)
    columns.textLength[place] = length
    textEnd += length
  }

  const placeFor = (userId: number): number => {
    const known = (columns.slots[slotOf(columns, userId)] ?? 0) - 1
    if (known !== -1) return known
    if (count === columns.capacity) columns = doubled(columns, count)
    columns.ids[count] = userId
    columns.slots[slotOf(columns, userId)] = count + 1
    return count++
  }

  return {
    find: userId => (columns.slots[slotOf(columns, userId)] ?? 0) - 1,
    set({ user, version, lowestAccepted, disabled, confirmedAt }) {
      const place = placeFor(user.id)
      columns.accesses[place] = accesses.placeOf(user)
      columns.versions[place] = version
      columns.lowestAccepted[place] = lowestAccepted
      columns.disabled[place] = disabled ? 1 : 0
      columns.confirmedAt[place] = confirmedAt
      columns.revisions[place] = (columns.revisions[place] ?? 0) + 1
      writeText(place, `${user.name}${BETWEEN}${user.email}${BETWEEN}${user.username}`)
    },
    at(place) {
      const access = accesses.at(columns.accesses[place] ?? 0)
      if (access === undefined) throw new Error('there is no owner at this place')
      const [name = '', email = '', username = ''] = textOf(place).split(BETWEEN)
      const { provider, profiles, areas, areaPrincipal, accessStatus } = access
      const id = columns.ids[place] ?? 0
      const own = { id, name, email, username, provider: provider satisfies AccountProvider }
      return {
        user: { ...own, perfis: profiles, profiles, areas, areaPrincipal, accessStatus },
        version: columns.versions[place] ?? 0,
        lowestAccepted: columns.lowestAccepted[place] ?? 0,
        disabled: columns.disabled[place] === 1,
        confirmedAt: columns.confirmedAt[place] ?? 0
      }
    },
    isDisabled: place => columns.disabled[place] === 1,
    lowestAccepted: place => columns.lowestAccepted[place] ?? 0,
    confirmedAt: place => columns.confirmedAt[place] ?? 0,
    revision: place => columns.revisions[place] ?? 0,
    retain(userIds) {
      const next = createColumns(columns.capacity)
      const kept = createAccesses()
      let left = 0
      for (let place = 0; place < count; place++) {
        if (!userIds.has(columns.ids[place] ?? 0)) continue
        copyOwner(columns, place, next, left)
        const access = accesses.at(columns.accesses[place] ?? 0)
        if (access !== undefined) next.accesses[left] = kept.placeOf(access)
        left++
      }
      columns = next
      count = left
      accesses = kept
    },
    size: () => count
  }
}
