// Copies text or bytes out of a larger piece of memory, if they are kept for longer than it.

/**
 * V8 keeps a part of a text as a reference to the whole: a remembered header value would keep the head that it came in.
 * @param text Latin-1
 */
export const ownText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')

/** Bytes in memory of their own: parts of the shared pool would keep all of it. */
export const ownBytes = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}
