// Holds log lines until the output takes them, and passes them on in blocks of whole lines.

interface LineBuffer {
  /** UTF-16 units of the lines that are in no block yet. */
  readonly size: number
  isEmpty(): boolean
  keep(line: string): void
  /** The block under way, or the next one; undefined when there is nothing to write. */
  nextBlock(): Buffer | undefined
  /** The output has taken so many bytes of the block. */
  taken(bytes: number): void
  /** Somebody else finishes the block under way. */
  dropBlock(): void
  /** Forgets everything; how many lines that were. */
  discard(): number
}

/** @param maxWrite bytes of a block at most, unless one line is longer */
export const createLineBuffer = (maxWrite: number): LineBuffer => {
  let lines: string[] = []
  /** What has not been taken yet of the block under way, and how many lines it began with. */
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

  // Plain: asked for each line that is written.
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
