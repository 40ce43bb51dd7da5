// Packed windows come back as they went, whatever was put, taken, forgotten and swept in between. RL-11
import fc from 'fast-check'
import t from 'tap'
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
