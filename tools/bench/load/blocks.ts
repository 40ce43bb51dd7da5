// Gives large bodies block by block.

const block = Buffer.alloc(64 * 1024, 'portaria')

export const blocks = function* (bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= block.length) yield left >= block.length ? block : block.subarray(0, left)
}
