// Encrypts signing keys under every secret in the settings, so that JWT_SECRET can be changed on one instance at a time.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** A private key, encrypted once per secret, by the secret's id. */
export type Sealed = Readonly<Record<string, SealedCopy>>

interface SealedCopy {
  /** base64url of nonce, tag and ciphertext (AES-256-GCM). */
  readonly box: string
  /** When an instance that knows the secret last reported it; seconds since the epoch by the database's clock. */
  readonly namedAt: number
}

export interface SealingSecret {
  /** An id that distinguishes secrets without revealing them. */
  readonly id: string
  readonly key: Buffer
}

/** A copy that no running instance has named for this long is dropped, because its secret has been retired. */
const UNNAMED_S = 60 * 60
/** How often an instance reports that it still knows a secret. */
const NAME_AGAIN_S = 10 * 60
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** A separate key for each secret (HKDF, RFC 5869). */
export const sealingSecret = (secret: string): SealingSecret => ({
  id: Buffer.from(hkdfSync('sha256', secret, '', 'portaria assertion key id', 9)).toString('base64url'),
  key: Buffer.from(hkdfSync('sha256', secret, '', 'portaria assertion keys', 32))
})

const close = ({ key }: SealingSecret, kid: string, text: string): string => {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(kid))
  const bytes = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), bytes]).toString('base64url')
}

const open = ({ key }: SealingSecret, kid: string, box: string): string | undefined => {
  const bytes = Buffer.from(box, 'base64url')
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(kid)).setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
    const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()])
    return text.toString('utf8')
  } catch {
    return undefined
  }
}

export const seal = (secrets: readonly SealingSecret[], kid: string, text: string, nowS: number): Sealed =>
  Object.fromEntries(secrets.map(secret => [secret.id, { box: close(secret, kid, text), namedAt: nowS }]))

/** Whether no running instance has named any of its secrets for so long that none can open it. */
export const isAbandoned = (sealed: Sealed, nowS: number): boolean =>
  Object.values(sealed).every(({ namedAt }) => nowS - namedAt > UNNAMED_S)

/** The plain text, if one of the secrets decrypts it. */
export const unseal = (secrets: readonly SealingSecret[], kid: string, sealed: Sealed): string | undefined => {
  for (const secret of secrets) {
    const copy = sealed[secret.id]
    const text = copy === undefined ? undefined : open(secret, kid, copy.box)
    if (text !== undefined) return text
  }
  return undefined
}

/**
 * The copies as they should be now: one for each secret given here, others as long as some instance names them.
 * Undefined if nothing has to change, or if none of the secrets decrypts it.
 */
export const reseal = (
  secrets: readonly SealingSecret[],
  kid: string,
  sealed: Sealed,
  nowS: number
): Sealed | undefined => {
  const text = unseal(secrets, kid, sealed)
  if (text === undefined) return undefined
  const named = new Set(secrets.map(({ id }) => id))
  const isDue = secrets.some(({ id }) => nowS - (sealed[id]?.namedAt ?? Number.NEGATIVE_INFINITY) > NAME_AGAIN_S)
  const kept = Object.entries(sealed).filter(([id, { namedAt }]) => !named.has(id) && nowS - namedAt <= UNNAMED_S)
  const isRetired = Object.keys(sealed).some(id => !named.has(id) && !kept.some(([other]) => other === id))
  return isDue || isRetired ? { ...Object.fromEntries(kept), ...seal(secrets, kid, text, nowS) } : undefined
}
