// Computes HMAC-SHA-256 with two one-shot hashes (RFC 2104), because a native Hmac object costs more than the hashing.
import { hash } from 'node:crypto'

const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** A UTF-16 unit takes at most this many bytes in UTF-8. */
const MAX_UTF8_BYTES = 3

const paddedWith = (key: Buffer, pad: number, bytes: number): Buffer => {
  const block = Buffer.alloc(bytes)
  for (let i = 0; i < BLOCK_BYTES; i++) block[i] = (key[i] ?? 0) ^ pad
  return block
}

/**
 * Returns a function that computes the HMAC of a text, in base64url.
 * @param longest maximum length of such a text; throws for a longer one
 */
export const createHmacSha256 = (secret: string, longest: number): ((text: string) => string) => {
  const own = Buffer.from(secret, 'utf8')
  const key = own.length > BLOCK_BYTES ? hash('sha256', own, 'buffer') : own
  const inner = paddedWith(key, 0x36, BLOCK_BYTES + longest * MAX_UTF8_BYTES)
  const outer = paddedWith(key, 0x5c, BLOCK_BYTES + DIGEST_BYTES)
  return text => {
    if (text.length > longest) throw new RangeError('the text is too long')
    const end = BLOCK_BYTES + inner.write(text, BLOCK_BYTES)
    outer.write(hash('sha256', inner.subarray(0, end), 'binary'), BLOCK_BYTES, 'latin1')
    return hash('sha256', outer, 'base64url')
  }
}
