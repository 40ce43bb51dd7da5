// Reads the PEM files of an upstream: CAs to trust, and the client certificate with its key.
import { createPrivateKey } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { Target } from '../../routes/upstream.ts'
import { readCertificateBundle } from '../../values/certificates.ts'
import { unlessExhausted } from '../../values/descriptors.ts'
import type { Complain } from '../complaint.ts'
import type { UpstreamData } from '../schema/upstream-schema.ts'

const MAX_PEM_BYTES = 1024 * 1024

const FILE_KEYS = ['caFile', 'clientCertFile', 'clientKeyFile'] as const

/** Absolute names of the PEM files that an upstream's entry names. */
export const certificateFiles = (data: UpstreamData | null, file: string): string[] =>
  FILE_KEYS.map(key => data?.[key])
    .filter(name => typeof name === 'string')
    .map(name => resolve(dirname(file), name))

export const readCertificates = async (
  data: UpstreamData,
  file: string,
  targets: readonly Target[],
  say: Complain,
  readsFiles: boolean
) => {
  if (targets.length > 0 && !targets.some(target => target.tls)) {
    for (const key of [...FILE_KEYS, 'serverName'] as const)
      if (data[key] !== undefined) say(`"${key}" needs an https:// address`, key)
    return { ca: undefined, clientCertificate: undefined, serverName: undefined }
  }
  const read = async (key: (typeof FILE_KEYS)[number]): Promise<string | undefined> => {
    const name = data[key]
    if (name === undefined || !readsFiles) return undefined
    const path = resolve(dirname(file), name)
    const pem = await readAtMost(path, MAX_PEM_BYTES)
    return pem ?? say(`"${key}" names a file that cannot be read: ${path}`, key)
  }
  const [ca, cert, key] = await Promise.all(FILE_KEYS.map(read))
  if (data.clientCertFile !== undefined && data.clientKeyFile === undefined) {
    say('"clientCertFile" requires "clientKeyFile"', 'clientCertFile')
  }
  if (data.clientKeyFile !== undefined && data.clientCertFile === undefined) {
    say('"clientKeyFile" requires "clientCertFile"', 'clientKeyFile')
  }
  if (ca !== undefined && readCertificateBundle(ca) === undefined)
    say('"caFile" contains no valid PEM certificates', 'caFile')
  return { ca, clientCertificate: clientCertificate(cert, key, say), serverName: data.serverName }
}

const clientCertificate = (cert: string | undefined, key: string | undefined, say: Complain) => {
  // The key belongs to the first certificate of a chain (RFC 8446 §4.4.2).
  const certificate = cert === undefined ? undefined : readCertificateBundle(cert)?.[0]
  const privateKey = key === undefined ? undefined : unlessRejected(() => createPrivateKey(key))
  if (cert !== undefined && certificate === undefined) {
    say('"clientCertFile" contains no valid PEM certificates', 'clientCertFile')
  }
  if (key !== undefined && privateKey === undefined) {
    say('"clientKeyFile" contains no unencrypted PEM private key', 'clientKeyFile')
  }
  if (cert === undefined || key === undefined || certificate === undefined || privateKey === undefined) return undefined
  if (!certificate.checkPrivateKey(privateKey))
    return say('"clientKeyFile" is not the key of "clientCertFile"', 'clientKeyFile')
  if (unlessRejected(() => createSecureContext({ cert, key })) === undefined)
    return say('"clientCertFile" is rejected by OpenSSL; its key may be too short', 'clientCertFile')
  return { cert, key }
}

/** Undefined if OpenSSL rejects it. */
const unlessRejected = <T>(read: () => T): T | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** The text of a regular file; undefined if it is not one, is too large, or cannot be read. */
const readAtMost = async (path: string, maxBytes: number): Promise<string | undefined> => {
  let handle: FileHandle | undefined
  try {
    // A pipe is opened without its writer, too.
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = await handle.stat()
    return stats.isFile() && stats.size <= maxBytes ? await handle.readFile('utf8') : undefined
  } catch (error) {
    return unlessExhausted(error)
  } finally {
    await handle?.close()
  }
}
