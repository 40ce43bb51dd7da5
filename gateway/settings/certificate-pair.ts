// Validates PEM certificate chains and their private keys before a listener or the connection to Redis uses them.
import { createPrivateKey } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { formatAddress, parseAddress } from '../values/addresses.ts'
import { readCertificateBundle } from '../values/certificates.ts'
import { type Mistake, type Reader, readText } from './reader.ts'
import type { VariableName } from './table.ts'

/** A chain and the private key of its first certificate, which match and are accepted by OpenSSL. */
export interface CertificatePair {
  /** PEM text. */
  readonly cert: string
  /** PEM text. */
  readonly key: string
  /** Milliseconds since 1970: the earliest end of validity within the chain. */
  readonly expiresAt: number
  /** The same of its first certificate alone. */
  readonly leafExpiresAt: number
  /** What the certificate is for, by its subjectAltName: names in lower case, such as `*.example.org`, and addresses. */
  readonly names: readonly string[]
}

/** `undefined` for a text: its file cannot be read. */
export const checkPair = (
  cert: string | undefined,
  key: string | undefined,
  [certFile, keyFile]: readonly [string, string] = ['TLS_CERT_FILE', 'TLS_KEY_FILE']
): CertificatePair | Mistake => {
  if (cert === undefined) return { variable: certFile, message: 'cannot be read' }
  if (key === undefined) return { variable: keyFile, message: 'cannot be read' }
  const [leaf, ...issuers] = readCertificateBundle(cert) ?? []
  if (leaf === undefined) return { variable: certFile, message: NO_CERTIFICATES }
  const fault = keyFault(key)
  if (fault !== undefined) return { variable: keyFile, message: fault }
  if (!leaf.checkPrivateKey(createPrivateKey(key)))
    return { variable: keyFile, message: `is not the key of the first certificate in ${certFile}` }
  if (accepted(() => createSecureContext({ cert, key })) === undefined)
    return { variable: certFile, message: 'is rejected by OpenSSL; its key may be too short' }
  const leafExpiresAt = leaf.validToDate.getTime()
  const expiresAt = Math.min(leafExpiresAt, ...issuers.map(({ validToDate }) => validToDate.getTime()))
  return { cert, key, expiresAt, leafExpiresAt, names: namesIn(leaf.subjectAltName) }
}

const NO_CERTIFICATES = 'must contain certificates in PEM format'

const certificateFault = (text: string) => (readCertificateBundle(text) === undefined ? NO_CERTIFICATES : undefined)

const keyFault = (text: string): string | undefined => {
  if (text.includes('ENCRYPTED')) return 'must not be encrypted'
  const isKey = accepted(() => createPrivateKey(text)) !== undefined
  return isKey ? undefined : 'must contain a private key in PEM format'
}

/**
 * The pairs whose files two settings name, in order; undefined after a mistake, or if neither is set. Each file is checked,
 * whatever is wrong with the others.
 */
export const readPairs = <Name extends VariableName>(
  reader: Reader,
  names: readonly [certFile: Name, keyFile: Name],
  filesOf: (name: Name) => readonly string[]
) => {
  const before = reader.mistakes.length
  const [certName, keyName] = names
  const [certFiles, keyFiles] = [filesOf(certName), filesOf(keyName)]
  if (certFiles.length === 0 && keyFiles.length === 0) return undefined
  if (certFiles.length === 0) reader.mistake(certName, `is required with ${keyName}`)
  else if (keyFiles.length === 0) reader.mistake(keyName, `is required with ${certName}`)
  else if (certFiles.length !== keyFiles.length)
    reader.mistake(keyName, `must name as many files as ${certName}, in the same order`)
  const say = (variable: string, i: number, message: string, { length }: readonly unknown[]) =>
    reader.mistake(variable, length === 1 ? message : `(file ${i + 1}) ${message}`)
  const textsOf = (name: Name, files: readonly string[], faultOf: (text: string) => string | undefined) =>
    files.map((file, i) => {
      const { text = '', fault } = readText(file)
      const message = fault === undefined ? faultOf(text) : `cannot be read: ${fault}`
      if (message !== undefined) say(name, i, message, files)
      return text
    })
  const certs = textsOf(certName, certFiles, certificateFault)
  const keys = textsOf(keyName, keyFiles, keyFault)
  if (reader.mistakes.length > before) return undefined
  const pairs = certFiles.flatMap((certFile, i) => {
    const pair = checkPair(certs[i], keys[i], names)
    if (!('message' in pair)) return [{ certFile, keyFile: keyFiles[i] ?? '', pair }]
    say(pair.variable, i, pair.message, certFiles)
    return []
  })
  return pairs.length === certFiles.length ? pairs : undefined
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
