// Buffers log lines until the output accepts them, and passes them on in blocks of whole lines.

interface LineBuffer {
  /** UTF-16 units of the lines that are not in a block yet. */
  readonly size: number
  isEmpty(): boolean
  keep(line: string): void
  /** The block in progress, or the next one; undefined if there is nothing to write. */
  nextBlock(): Buffer | undefined
  /** The output has accepted this many bytes of the block. */
  taken(bytes: number): void
  /** Another writer finishes the block in progress. */
  dropBlock(): void
  /** Discards everything; returns the number of lines. */
  discard(): number
}

/** @param maxWrite maximum bytes of a block, unless one line is longer */
export const createLineBuffer = (maxWrite: number): LineBuffer => {
  let lines: string[] = []
  /** The unwritten rest of the block in progress, and the number of lines it began with. */
  let block: Buffer | undefined
  let blockLines = 0

  const fit = (): number => {
    let bytes = 0
    let count = 0
    while (count < lines.length) {
      bytes += Buffer.byteLength(lines[count] ?? '')
      if (count > 0 && bytes > maxWrite) break
      count++
    }
    return count
  }

  // A plain property, because it is read for every line.
  const buffer: LineBuffer & { size: number } = {
    size: 0,
    isEmpty: () => lines.length === 0,
    keep(line) {
      if (line === '') return
      lines.push(line)
      buffer.size += line.length
    },
    nextBlock() {
      if (block !== undefined || lines.length === 0) return block
      blockLines = fit()
      const text = lines.slice(0, blockLines).join('')
      lines = lines.slice(blockLines)
      buffer.size -= text.length
      block = Buffer.from(text)
      return block
    },
    taken(bytes) {
      block = block !== undefined && bytes < block.length ? block.subarray(bytes) : undefined
    },
    dropBlock() {
      block = undefined
    },
    discard() {
      const lost = lines.length + (block === undefined ? 0 : blockLines)
      lines = []
      buffer.size = 0
      block = undefined
      return lost
    }
  }
  return buffer
}
