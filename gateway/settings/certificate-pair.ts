// Validates a PEM certificate chain and its private key before a listener uses them.
import { createPrivateKey } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { formatAddress, parseAddress } from '../values/addresses.ts'
import { readCertificateBundle } from '../values/certificates.ts'

/** A chain and the private key of its first certificate, which match and are accepted by OpenSSL. */
export interface CertificatePair {
  /** PEM text. */
  readonly cert: string
  /** PEM text. */
  readonly key: string
  /** Milliseconds since 1970: the earliest end of validity within the chain. */
  readonly expiresAt: number
  /** What the certificate is for, by its subjectAltName: names in lower case, such as `*.example.org`, and addresses. */
  readonly names: readonly string[]
}

interface PairMistake {
  readonly variable: string
  readonly message: string
}

/** `undefined` for a text: its file cannot be read. */
export const checkPair = (
  cert: string | undefined,
  key: string | undefined,
  [certFile, keyFile] = ['TLS_CERT_FILE', 'TLS_KEY_FILE']
): CertificatePair | PairMistake => {
  if (cert === undefined) return { variable: certFile, message: 'cannot be read' }
  if (key === undefined) return { variable: keyFile, message: 'cannot be read' }
  const [leaf, ...issuers] = readCertificateBundle(cert) ?? []
  if (leaf === undefined) return { variable: certFile, message: 'must contain certificates in PEM format' }
  if (key.includes('ENCRYPTED')) return { variable: keyFile, message: 'must not be encrypted' }
  const privateKey = accepted(() => createPrivateKey(key))
  if (privateKey === undefined) return { variable: keyFile, message: 'must contain a private key in PEM format' }
  if (!leaf.checkPrivateKey(privateKey))
    return { variable: keyFile, message: `is not the key of the first certificate in ${certFile}` }
  if (accepted(() => createSecureContext({ cert, key })) === undefined)
    return { variable: certFile, message: 'is rejected by OpenSSL; its key may be too short' }
  const expiresAt = Math.min(...[leaf, ...issuers].map(({ validToDate }) => validToDate.getTime()))
  return { cert, key, expiresAt, names: namesIn(leaf.subjectAltName) }
}

// `DNS:a.example, IP Address:0:0:0:0:0:0:0:1`, as Node.js prints it; what could be mistaken for a separator is in quotation marks.
const ALT_NAMES = /(DNS|IP Address|[^:,"]+):("(?:[^"\\]|\\.)*"|[^,]*)(?:, |$)/g

const namesIn = (altNames = ''): string[] =>
  [...altNames.matchAll(ALT_NAMES)].flatMap(([, kind, value = '']) => {
    if (kind === 'DNS') return [value.toLowerCase()]
    const address = kind === 'IP Address' ? parseAddress(value) : undefined
    return address === undefined ? [] : [formatAddress(address)]
  })

/** Undefined if OpenSSL rejects it. */
const accepted = <T>(read: () => T): T | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}
