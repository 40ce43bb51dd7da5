// Encrypts signing keys under every secret in the settings, so that instances can change JWT_SECRET one after the other.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** A private key once per secret that opens it, by the secret's id. */
export type Sealed = Readonly<Record<string, SealedCopy>>

interface SealedCopy {
  /** base64url of nonce, tag and ciphertext (AES-256-GCM). */
  readonly box: string
  /** When an instance that knows the secret last said so; seconds since the epoch by the database's clock. */
  readonly namedAt: number
}

export interface SealingSecret {
  /** Tells secrets apart without telling what they are. */
  readonly id: string
  readonly key: Buffer
}

/** A copy that no running instance has named for so long is dropped: its secret has been retired. */
const UNNAMED_S = 60 * 60
/** How often an instance says that it still knows a secret. */
const NAME_AGAIN_S = 10 * 60
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** A key of its own for each secret (HKDF, RFC 5869). */
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

/** The text, when one of the secrets opens it. */
export const unseal = (secrets: readonly SealingSecret[], kid: string, sealed: Sealed): string | undefined => {
  for (const secret of secrets) {
    const copy = sealed[secret.id]
    const text = copy === undefined ? undefined : open(secret, kid, copy.box)
    if (text !== undefined) return text
  }
  return undefined
}

/**
 * The copies as they ought to be now: one for each secret named here, others as long as some instance names them.
 * Undefined when nothing has to change, or when none of the secrets opens it.
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
