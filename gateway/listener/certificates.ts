// Follows the certificate files of the listener, each pair by itself: a valid one replaces the previous one, any other leaves it in use.
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type CertificatePair, checkPair } from '../settings/certificate-pair.ts'
import type { TlsFiles } from '../settings/settings.ts'
import { everyInTurn } from '../values/contain.ts'
import { stampOf } from '../values/file-stamp.ts'
import type { Log } from '../values/log.ts'

/** A certificate that the listener serves. */
export interface ServedCertificate {
  /** As TLS_CERT_FILE names it. */
  readonly file: string
  readonly pair: CertificatePair
  /** Whether the files hold this pair. */
  readonly current: boolean
}

/** The settings of a TLS listener for its next connection. */
export interface CertificateState {
  /** The first is the default. */
  readonly served: readonly ServedCertificate[]
  /** Shared by all processes behind one listener, so that each can resume the sessions of the others; bytes as Latin-1. */
  readonly ticketKeys: string
}

export interface Certificates {
  state(): CertificateState
  onChange(listener: (state: CertificateState) => void): void
  /** Reads the files again; resolves to whether the contents of all of them are in use. */
  reload(): Promise<boolean>
  close(): void
}

interface CertificatesParts {
  readonly tls: readonly TlsFiles[]
  readonly log: Pick<Log, 'info' | 'warn'>
  /** How often names, inodes, sizes and times are compared; renewals swap links, which file systems do not announce reliably. */
  readonly pollMs?: number
}

const POLL_MS = 500

export const initialState = (tls: readonly TlsFiles[]): CertificateState => ({
  served: tls.map(({ certFile, pair }) => ({ file: certFile, pair, current: true })),
  ticketKeys: newTicketKeys()
})

// RFC 5077 §4, as OpenSSL stores them: name, HMAC key and AES key, 16 bytes each.
const newTicketKeys = (): string => randomBytes(48).toString('latin1')

export const createCertificates = ({ tls, log, pollMs = POLL_MS }: CertificatesParts): Certificates => {
  const held = holdState(initialState(tls))
  let isClosed = false
  const followed = tls.map((files, index) =>
    followFiles(files, log, (next, isNew) => {
      const { served, ticketKeys } = held.state()
      if (!isClosed) held.set({ served: served.with(index, next), ticketKeys: isNew ? newTicketKeys() : ticketKeys })
    })
  )
  // One file after the other here and below: each one that hangs takes a thread, of which Node.js has four, also for name look-ups.
  const stop = everyInTurn(pollMs, async () => {
    for (const one of followed) await one.poll()
  })
  return {
    ...held,
    async reload() {
      let isWhole = true
      for (const one of followed) isWhole = (await one.reload()) && isWhole
      return isWhole
    },
    close() {
      isClosed = true
      stop()
    }
  }
}

/** Follows the files of one certificate, whatever becomes of the others. */
const followFiles = (
  files: TlsFiles,
  log: CertificatesParts['log'],
  replace: (next: ServedCertificate, isNew: boolean) => void
) => {
  const file = files.certFile
  let own: ServedCertificate = { file, pair: files.pair, current: true }
  let known: string | undefined
  let reading = Promise.resolve(true)

  const set = (next: ServedCertificate, isNew: boolean) => {
    own = next
    replace(next, isNew)
  }
  const read = async (): Promise<boolean> => {
    const found = await readPair(files)
    if ('message' in found) {
      const { variable, message } = found
      if (!own.current) return false
      log.warn(
        { variable, file, fault: message },
        'the certificate files cannot be used; the previous certificate stays in use'
      )
      set({ ...own, current: false }, false)
      return false
    }
    const isSame = found.cert === own.pair.cert && found.key === own.pair.key
    if (isSame && own.current) return true
    const expires = new Date(found.expiresAt).toISOString()
    log.info({ file, expires }, isSame ? 'the certificate files can be used again' : 'a new certificate is in use')
    set({ file, pair: found, current: true }, !isSame)
    return true
  }
  // After a read under way, which may have begun before the files were replaced.
  const reload = (): Promise<boolean> => {
    reading = reading.then(read, read)
    return reading
  }
  return {
    reload,
    async poll() {
      // The first poll also compares, because the files may have changed since the settings were read.
      const stamps = JSON.stringify([await stampOf(files.certFile), await stampOf(files.keyFile)])
      const isChanged = stamps !== known
      known = stamps
      if (isChanged || !isWell(own)) await reload()
    }
  }
}

const holdState = (initial: CertificateState) => {
  const listeners: ((state: CertificateState) => void)[] = []
  let state = initial
  return {
    state: () => state,
    onChange: (listener: (state: CertificateState) => void) => void listeners.push(listener),
    set(next: CertificateState) {
      state = next
      for (const listener of listeners) listener(state)
    }
  }
}

/**
 * The certificates of another process, which follows the files for all that share a listener: a process that starts while
 * the files are invalid serves the same certificate as the others.
 * @param subscribe passes on each state after the initial one
 */
export const followCertificates = (
  initial: CertificateState,
  subscribe: (take: (state: CertificateState) => void) => void
): Certificates => {
  const held = holdState(initial)
  subscribe(held.set)
  return { ...held, reload: async () => held.state().served.every(({ current }) => current), close: () => undefined }
}

/** Whether the files contain the certificate in use, and it has not expired. */
export const isWell = ({ current, pair }: ServedCertificate): boolean => current && pair.expiresAt > Date.now()

const readPair = async ({ certFile, keyFile }: TlsFiles) => {
  const [cert, key] = [await textOf(certFile), await textOf(keyFile)]
  const read = checkPair(cert, key)
  // The file may still contain an issuer that has expired, beside the one that replaced it.
  if ('message' in read || read.leafExpiresAt > Date.now()) return read
  return { variable: 'TLS_CERT_FILE', message: 'has expired' } as const
}

const textOf = (file: string): Promise<string | undefined> => readFile(file, 'utf8').catch(() => undefined)
