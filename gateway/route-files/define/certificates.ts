// Reads the PEM files of an upstream: CAs to trust, and the client certificate with its key.
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Target, Upstream } from '../../routes/route.ts'
import { readCertificateBundle } from '../../values/certificates.ts'
import type { PlaceOf } from '../complaint.ts'
import { type Complaint, complain } from '../complaint.ts'
import type { UpstreamData } from '../schema/upstream-schema.ts'

const MAX_PEM_BYTES = 1024 * 1024

type Certificates = Pick<Upstream, 'ca' | 'clientCertificate' | 'serverName'>

const TLS_KEYS = ['caFile', 'clientCertFile', 'clientKeyFile', 'serverName'] as const

type FileKey = 'caFile' | 'clientCertFile' | 'clientKeyFile'

/** Absolute names of the PEM files that an upstream's entry names. */
export const certificateFiles = (data: UpstreamData | null, file: string): string[] =>
  [data?.caFile, data?.clientCertFile, data?.clientKeyFile]
    .filter(name => typeof name === 'string')
    .map(name => resolve(dirname(file), name))

export const readCertificates = async (
  data: UpstreamData,
  file: string,
  targets: readonly Target[],
  placeOf: PlaceOf,
  complaints: Complaint[]
): Promise<Certificates> => {
  const say = (key: string, message: string): undefined => {
    complaints.push(complain(placeOf(key), message))
  }
  if (targets.length > 0 && !targets.some(target => target.tls)) {
    for (const key of TLS_KEYS) if (data[key] !== undefined) say(key, `"${key}" needs an https:// address`)
    return { ca: undefined, clientCertificate: undefined, serverName: undefined }
  }
  const read = async (key: FileKey): Promise<string | undefined> => {
    const name = data[key]
    if (name === undefined) return undefined
    const path = resolve(dirname(file), name)
    const pem = await readAtMost(path, MAX_PEM_BYTES)
    return pem ?? say(key, `"${key}" names a file that cannot be read: ${path}`)
  }
  const [ca, cert, key] = await Promise.all([read('caFile'), read('clientCertFile'), read('clientKeyFile')])
  if (data.clientCertFile !== undefined && data.clientKeyFile === undefined) {
    say('clientCertFile', '"clientCertFile" requires "clientKeyFile"')
  }
  if (data.clientKeyFile !== undefined && data.clientCertFile === undefined) {
    say('clientKeyFile', '"clientKeyFile" requires "clientCertFile"')
  }
  if (ca !== undefined && readCertificateBundle(ca) === undefined)
    say('caFile', '"caFile" contains no valid PEM certificates')
  return { ca, clientCertificate: clientCertificate(cert, key, say), serverName: data.serverName }
}

const clientCertificate = (
  cert: string | undefined,
  key: string | undefined,
  say: (key: string, message: string) => undefined
): Certificates['clientCertificate'] => {
  // The key belongs to the first certificate of a chain (RFC 8446 §4.4.2).
  const certificate = cert === undefined ? undefined : readCertificateBundle(cert)?.[0]
  const privateKey = key === undefined ? undefined : readKey(key)
  if (cert !== undefined && certificate === undefined) {
    say('clientCertFile', '"clientCertFile" contains no valid PEM certificates')
  }
  if (key !== undefined && privateKey === undefined) {
    say('clientKeyFile', '"clientKeyFile" contains no unencrypted PEM private key')
  }
  if (cert === undefined || key === undefined || certificate === undefined || privateKey === undefined) return undefined
  if (certificate.checkPrivateKey(privateKey)) return { cert, key }
  return say('clientKeyFile', '"clientKeyFile" is not the key of "clientCertFile"')
}

const readKey = (pem: string): KeyObject | undefined => {
  try {
    return createPrivateKey(pem)
  } catch {
    return undefined
  }
}

/** The text of a regular file; undefined if it is not one, is too large, or cannot be read. */
const readAtMost = async (path: string, maxBytes: number): Promise<string | undefined> => {
  let handle: FileHandle | undefined
  try {
    handle = await open(path)
    const stats = await handle.stat()
    return stats.isFile() && stats.size <= maxBytes ? await handle.readFile('utf8') : undefined
  } catch {
    return undefined
  } finally {
    await handle?.close()
  }
}
