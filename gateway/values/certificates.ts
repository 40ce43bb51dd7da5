// Reads a PEM bundle of certificates.
import { X509Certificate } from 'node:crypto'

/** The certificates in a PEM text; undefined if it contains none, or one that cannot be read. */
export const readCertificateBundle = (pem: string): X509Certificate[] | undefined => {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  try {
    return blocks.length === 0 ? undefined : blocks.map(block => new X509Certificate(block))
  } catch {
    return undefined
  }
}
