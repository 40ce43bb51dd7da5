// Hashes keys into 64 bits that depend on every character and on two secret seeds.

type KeyHash = (seed: number, key: string) => readonly [low: number, high: number]

/** Two lanes of 32 bits (the mixing of MurmurHash3). With random seeds, colliding keys cannot be chosen. */
export const createKeyHash =
  (lowSeed: number, highSeed: number): KeyHash =>
  (seed, key) => {
    let low = lowSeed ^ seed
    let high = highSeed ^ Math.imul(seed, 0x9e3779b1)
    for (let index = 0; index < key.length; index++) {
      const code = key.charCodeAt(index)
      low = Math.imul(low ^ code, 0x85ebca6b)
      high = Math.imul(high ^ code, 0xc2b2ae35)
      low ^= high >>> 15
    }
    low = Math.imul(low ^ (low >>> 16), 0x85ebca6b) ^ Math.imul(high ^ (high >>> 13), 0xc2b2ae35)
    high = Math.imul(high ^ (high >>> 16), 0x85ebca6b) ^ Math.imul(low ^ (low >>> 13), 0xc2b2ae35)
    return [low, high]
  }
