// Packed windows come back as they went, whatever was put, taken, forgotten and swept in between. RL-11
import fc from 'fast-check'
import t from 'tap'
import { createKeyHash } from '../../gateway/limits/key-hash.ts'
import { createWindow } from '../../gateway/limits/leases.ts'
import { createPackedWindows } from '../../gateway/limits/packed-windows.ts'

const step = fc.record({
  kind: fc.constantFrom('put', 'put', 'take', 'sweep'),
  key: fc.nat(30),
  seed: fc.nat(1),
  spent: fc.nat(1000),
  end: fc.integer({ min: 1, max: 100 })
})

t.test('a ring of packed windows behaves like a map from which the oldest leave', async t => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 16 }), fc.array(step, { maxLength: 200, size: 'max' }), (capacity, steps) => {
      const packed = createPackedWindows(capacity)
      // The ring as a list of places: putting overwrites the place whose turn it is.
      const ring: ({ id: string; spent: number; end: number } | undefined)[] = new Array(capacity).fill(undefined)
      let next = 0
      for (const { kind, key, seed, spent, end } of steps) {
        const id = `${seed} ${key}`
        const place = ring.findIndex(entry => entry?.id === id)
        if (kind === 'sweep') {
          packed.sweep(end)
          for (const [index, entry] of ring.entries())
            if (entry !== undefined && entry.end <= end) ring[index] = undefined
        } else if (kind === 'put' && place < 0) {
          packed.put(seed, `key ${key}`, {
            ...createWindow(),
            spent,
            end,
            lent: spent + 1,
            others: 2,
            generation: 1e12 + end
          })
          ring[next] = { id, spent, end }
          next = (next + 1) % capacity
        } else if (kind === 'take') {
          const window = createWindow()
          const known = packed.takeOut(seed, `key ${key}`, window)
          const expected = ring[place]
          if (known !== (expected !== undefined)) return false
          if (expected !== undefined) {
            const { spent: was, end: until } = expected
            if (window.spent !== was || window.end !== until || window.lent !== was + 1) return false
            if (window.others !== 2 || window.generation !== 1e12 + until) return false
            ring[place] = undefined
          }
        }
        if (packed.size() !== ring.filter(entry => entry !== undefined).length) return false
      }
      return true
    }),
    { numRuns: 1000 }
  )
  t.pass('1000 histories')
})

t.test('of 200,000 keys, among which some agree in a half of their hashes, none is taken for another', async t => {
  const [count, window] = [200_000, createWindow()]
  const packed = createPackedWindows(count)
  for (let n = 0; n < count; n++) packed.put(0, `k${n}`, Object.assign(window, { end: 1, spent: n }))
  let mistaken = 0
  // The last first: of two that agree, the earlier one is found first.
  for (let n = count - 1; n >= 0; n--) if (!packed.takeOut(0, `k${n}`, window) || window.spent !== n) mistaken++
  t.equal(mistaken, 0)
})

type Hash = ReturnType<ReturnType<typeof createKeyHash>>

/** How far the worst of the 64 bits is from being changed in half of all cases. */
const unevenness = (pairs: readonly (readonly [Hash, Hash])[]): number => {
  const changes = new Array<number>(64).fill(0)
  for (const [one, other] of pairs)
    for (let bit = 0; bit < 64; bit++) {
      const half = bit < 32 ? 0 : 1
      if (((one[half] ^ other[half]) & (1 << (bit % 32))) !== 0) changes[bit] = (changes[bit] ?? 0) + 1
    }
  return Math.max(...changes.map(count => Math.abs(count / pairs.length - 0.5)))
}

t.test('each half of the hash of a key depends on its every character, its table and both seeds', async t => {
  let state = 12345
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return state
  }
  const keyOf = (n: number, length: number) =>
    Array.from({ length }, (_, at) => String.fromCharCode(48 + ((n * 7 + at * 13) % 10))).join('')
  const many = (make: (n: number) => readonly [Hash, Hash]) => Array.from({ length: 256 }, (_, n) => make(n))
  for (const length of [7, 15, 39])
    for (const at of [0, length >> 1, length - 1])
      for (const bit of [1, 2, 8]) {
        const pairs = many(n => {
          const [hash, key] = [createKeyHash(random(), random()), keyOf(n, length)]
          const other = key.slice(0, at) + String.fromCharCode(key.charCodeAt(at) ^ bit) + key.slice(at + 1)
          return [hash(1, key), hash(1, other)]
        })
        t.ok(unevenness(pairs) < 0.2, `character ${at} of ${length}, bit ${bit}`)
      }
  const pairOf = (n: number, lowChange: number, highChange: number, otherTable: number): readonly [Hash, Hash] => {
    const [low, high, key] = [random(), random(), keyOf(n, 11)]
    const hash = createKeyHash(low ^ lowChange, high ^ highChange)
    return [createKeyHash(low, high)(n, key), hash(otherTable, key)]
  }
  t.ok(unevenness(many(n => pairOf(n, 0, 0, n + 1))) < 0.2, 'the table')
  t.ok(unevenness(many(n => pairOf(n, 0, 1 << (n % 32), n))) < 0.2, 'one seed')
  t.ok(unevenness(many(n => pairOf(n, 1 << (n % 32), 0, n))) < 0.3, 'the other, whose highest bits spread less')
  const hash = createKeyHash(random(), random())
  const hashes = Array.from({ length: 20_000 }, (_, n) => hash(1, `10.0.${n >> 8}.${n & 255}`))
  for (const half of [0, 1] as const)
    t.ok(new Set(hashes.map(each => each[half])).size > 19_995, 'neighbouring addresses differ in each half')
})
