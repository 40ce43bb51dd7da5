// Cuts bytes into pieces, as networks do: no reader may notice.
import type { Random } from '../mutate.ts'

/** One to six pieces, sometimes single bytes; cuts prefer the neighbourhood of line ends. */
export const splitBytes = (bytes: Buffer, random: Random): Buffer[] => {
  if (bytes.length < 200 && random.below(8) === 0) return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
  const cuts = Array.from({ length: 1 + random.below(5) }, () => cutIn(bytes, random)).sort((a, b) => a - b)
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
