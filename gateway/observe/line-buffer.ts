// Buffers log lines until the output accepts them, and passes them on in blocks of whole lines.

/** @param maxWrite maximum bytes of a block, unless one line is longer */
export const createLineBuffer = (maxWrite: number) => {
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

  const buffer = {
    /** UTF-16 units of the lines that are not in a block yet. A plain property, because it is read for every line. */
    size: 0,
    keep(line: string): void {
      if (line === '') return
      lines.push(line)
      buffer.size += line.length
    },
    /** The block in progress, or the next one; undefined if there is nothing to write. */
    nextBlock(): Buffer | undefined {
      if (block !== undefined || lines.length === 0) return block
      blockLines = fit()
      const text = lines.slice(0, blockLines).join('')
      lines = lines.slice(blockLines)
      buffer.size -= text.length
      block = Buffer.from(text)
      return block
    },
    /** The output has accepted this many bytes of the block. */
    taken(bytes: number): void {
      block = block !== undefined && bytes < block.length ? block.subarray(bytes) : undefined
    },
    /** Another writer finishes the block in progress. */
    dropBlock(): void {
      block = undefined
    },
    /** Discards everything; returns the number of lines. */
    discard(): number {
      const lost = lines.length + (block === undefined ? 0 : blockLines)
      lines = []
      buffer.size = 0
      block = undefined
      return lost
    }
  }
  return buffer
}
