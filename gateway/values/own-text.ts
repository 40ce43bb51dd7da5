// Copies text or bytes out of a larger piece of memory, so that they do not keep all of it alive.

/**
 * V8 stores a substring as a reference to the whole: a cached header value would keep the head that it came in.
 * @param text Latin-1
 */
export const ownText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')

/** Bytes in memory of their own, because parts of the shared pool would keep all of it alive. */
export const ownBytes = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}
