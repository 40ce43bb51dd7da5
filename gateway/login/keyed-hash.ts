// Hashes text under a key derived from JWT_SECRET, so that what is stored reveals nothing to those who lack the secret.
import { createHmac, hkdfSync } from 'node:crypto'

/** HMAC-SHA-256 (RFC 2104) under a key of its own for each purpose (HKDF, RFC 5869), as base64url. */
export const keyedHash = (secret: string, purpose: string): ((text: string) => string) => {
  const key = Buffer.from(hkdfSync('sha256', secret, '', purpose, 32))
  return text => createHmac('sha256', key).update(text).digest('base64url')
}
