// Validates a PEM certificate chain and its private key before a listener uses them.
import { createPrivateKey } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { readCertificateBundle } from '../values/certificates.ts'

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
export const checkPair = (cert: string | undefined, key: string | undefined): CertificatePair | PairMistake => {
  if (cert === undefined) return { variable: 'TLS_CERT_FILE', message: 'cannot be read' }
  if (key === undefined) return { variable: 'TLS_KEY_FILE', message: 'cannot be read' }
  const [leaf, ...issuers] = readCertificateBundle(cert) ?? []
  if (leaf === undefined) return { variable: 'TLS_CERT_FILE', message: 'must contain certificates in PEM format' }
  if (key.includes('ENCRYPTED')) return { variable: 'TLS_KEY_FILE', message: 'must not be encrypted' }
  const privateKey = accepted(() => createPrivateKey(key))
  if (privateKey === undefined) return { variable: 'TLS_KEY_FILE', message: 'must contain a private key in PEM format' }
  if (!leaf.checkPrivateKey(privateKey))
    return { variable: 'TLS_KEY_FILE', message: 'is not the key of the first certificate in TLS_CERT_FILE' }
  if (accepted(() => createSecureContext({ cert, key })) === undefined)
    return { variable: 'TLS_CERT_FILE', message: 'is rejected by OpenSSL; its key may be too short' }
  return { cert, key, expiresAt: Math.min(...[leaf, ...issuers].map(({ validToDate }) => validToDate.getTime())) }
}

/** Undefined if OpenSSL rejects it. */
const accepted = <T>(read: () => T): T | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}
