// Validates a PEM certificate chain and its private key before a listener uses them.
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

/** A chain and the private key of its first certificate, which match and are accepted by OpenSSL. */
export interface CertificatePair {
  /** PEM text. */
  readonly cert: string
  /** PEM text. */
  readonly key: string
  /** Milliseconds since 1970: the earliest end of validity within the chain. */
  readonly expiresAt: number
}

interface PairMistake {
  readonly variable: 'TLS_CERT_FILE' | 'TLS_KEY_FILE'
  readonly message: string
}

/** `undefined` for a text: its file cannot be read. */
export const judgePair = (cert: string | undefined, key: string | undefined): CertificatePair | PairMistake => {
  if (cert === undefined) return { variable: 'TLS_CERT_FILE', message: 'cannot be read' }
  if (key === undefined) return { variable: 'TLS_KEY_FILE', message: 'cannot be read' }
  const [leaf, ...issuers] = certificatesOf(cert) ?? []
  if (leaf === undefined) return { variable: 'TLS_CERT_FILE', message: 'must contain certificates in PEM format' }
  if (key.includes('ENCRYPTED')) return { variable: 'TLS_KEY_FILE', message: 'must not be encrypted' }
  const privateKey = privateKeyOf(key)
  if (privateKey === undefined) return { variable: 'TLS_KEY_FILE', message: 'must contain a private key in PEM format' }
  if (!leaf.checkPrivateKey(privateKey))
    return { variable: 'TLS_KEY_FILE', message: 'is not the key of the first certificate in TLS_CERT_FILE' }
  if (!isUsable(cert, key))
    return { variable: 'TLS_CERT_FILE', message: 'is rejected by OpenSSL; its key may be too short' }
  return { cert, key, expiresAt: Math.min(...[leaf, ...issuers].map(({ validToDate }) => validToDate.getTime())) }
}

/** Undefined if either of them is invalid. */
const certificatesOf = (text: string): X509Certificate[] | undefined => {
  try {
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
    return blocks.map(block => new X509Certificate(block))
  } catch {
    return undefined
  }
}

const privateKeyOf = (text: string): KeyObject | undefined => {
  try {
    return createPrivateKey(text)
  } catch {
    return undefined
  }
}

const isUsable = (cert: string, key: string): boolean => {
  try {
    createSecureContext({ cert, key })
    return true
  } catch {
    return false
  }
}
