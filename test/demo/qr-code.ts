// A short text becomes a QR code (ISO/IEC 18004): version 3, level L, byte mode, mask 0, drawn as SVG.

const SIZE = 29
const DATA_BYTES = 55
const CHECK_BYTES = 15
/** Level L with mask 0, already encoded and masked (§7.9). */
const FORMAT = 0b111011111000100
const QUIET = 4

/** `text`: at most 53 bytes of UTF-8. */
export const qrSvg = (text: string): string => {
  const modules = qrModules(text)
  const dark = modules.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x + QUIET} ${y + QUIET}h1v1h-1z`] : []))
  )
  const side = SIZE + 2 * QUIET
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${side}" shape-rendering="crispEdges">` +
    `<rect width="${side}" height="${side}" fill="#fff"/><path d="${dark.join('')}"/></svg>`
  )
}

/** Rows of modules, true where dark. */
export const qrModules = (text: string): boolean[][] => {
  const data = dataBytes(text)
  const bytes = [...data, ...checkBytes(data)]
  const fixed = fixedModules()
  const free = zigzag().filter(([x, y]) => fixed.get(`${x},${y}`) === undefined)
  const placed = new Map(
    free.map(([x, y], index) => {
      const bit = (((bytes[index >> 3] ?? 0) >> (7 - (index & 7))) & 1) === 1
      return [`${x},${y}`, bit !== ((x + y) % 2 === 0)]
    })
  )
  const isDark = (x: number, y: number) => fixed.get(`${x},${y}`) ?? placed.get(`${x},${y}`) ?? false
  return Array.from({ length: SIZE }, (_, y) => Array.from({ length: SIZE }, (_, x) => isDark(x, y)))
}

const dataBytes = (text: string): number[] => {
  const content = [...Buffer.from(text)]
  if (content.length > DATA_BYTES - 2) throw new RangeError('the text is too long for this QR code')
  // Four bits of mode, eight of length, the text, four of end: so everything lies half a byte later.
  const halves = [4, content.length >> 4, content.length & 15, ...content.flatMap(byte => [byte >> 4, byte & 15]), 0]
  const bytes = Array.from(
    { length: halves.length / 2 },
    (_, i) => ((halves[2 * i] ?? 0) << 4) | (halves[2 * i + 1] ?? 0)
  )
  for (let pad = 0xec; bytes.length < DATA_BYTES; pad ^= 0xec ^ 0x11) bytes.push(pad)
  return bytes
}

/** Reed-Solomon over GF(256) with x⁸+x⁴+x³+x²+1. */
const checkBytes = (data: readonly number[]): number[] => {
  let divisor = [1]
  for (let i = 0, root = 1; i < CHECK_BYTES; i++, root = multiply(root, 2)) {
    const shifted = [...divisor, 0]
    const scaled = [0, ...divisor.map(coefficient => multiply(coefficient, root))]
    divisor = shifted.map((coefficient, at) => coefficient ^ (scaled[at] ?? 0))
  }
  const rest = [...data, ...new Array<number>(CHECK_BYTES).fill(0)]
  for (let i = 0; i < data.length; i++) {
    const factor = rest[i] ?? 0
    for (const [at, coefficient] of divisor.entries())
      rest[i + at] = (rest[i + at] ?? 0) ^ multiply(coefficient, factor)
  }
  return rest.slice(data.length)
}

const multiply = (a: number, b: number): number => {
  let product = 0
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ ((product >> 7) * 0x11d)
    product ^= ((b >> bit) & 1) * a
  }
  return product
}

/** Finders, timing, alignment and format: where they lie and which are dark. */
const fixedModules = (): Map<string, boolean> => {
  const fixed = new Map<string, boolean>()
  const set = (x: number, y: number, isDark: boolean) => {
    if (x >= 0 && y >= 0 && x < SIZE && y < SIZE) fixed.set(`${x},${y}`, isDark)
  }
  const square = (centreX: number, centreY: number, reach: number, light: readonly number[]) => {
    for (let dy = -reach; dy <= reach; dy++)
      for (let dx = -reach; dx <= reach; dx++)
        set(centreX + dx, centreY + dy, !light.includes(Math.max(Math.abs(dx), Math.abs(dy))))
  }
  for (let i = 0; i < SIZE; i++) {
    set(i, 6, i % 2 === 0)
    set(6, i, i % 2 === 0)
  }
  square(3, 3, 4, [2, 4])
  square(SIZE - 4, 3, 4, [2, 4])
  square(3, SIZE - 4, 4, [2, 4])
  square(SIZE - 7, SIZE - 7, 2, [1])
  for (let i = 0; i < 15; i++) {
    const isDark = ((FORMAT >> i) & 1) === 1
    if (i < 8) {
      set(8, i < 6 ? i : i + 1, isDark)
      set(SIZE - 1 - i, 8, isDark)
    } else {
      set(i === 8 ? 7 : 14 - i, 8, isDark)
      set(8, SIZE - 15 + i, isDark)
    }
  }
  set(8, SIZE - 8, true)
  return fixed
}

/** All modules in the order in which data is laid: pairs of columns from the right, up and down in turn (§7.7.3). */
const zigzag = (): [number, number][] => {
  const places: [number, number][] = []
  let isUpward = true
  for (let right = SIZE - 1; right > 0; right -= right === 8 ? 3 : 2) {
    for (let step = 0; step < SIZE; step++) {
      const y = isUpward ? SIZE - 1 - step : step
      places.push([right, y], [right - 1, y])
    }
    isUpward = !isUpward
  }
  return places
}
