// Follows the certificate files of the listener: a valid pair replaces the previous one, any other leaves it in use.

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type CertificatePair, checkPair } from '../settings/certificate-pair.ts'
import type { TlsSettings } from '../settings/settings.ts'
import { task } from '../values/contain.ts'
import { stampOf } from '../values/file-stamp.ts'
import type { Log } from '../values/log.ts'

/** The settings of a TLS listener for its next connection. */
export interface CertificateState {
  readonly pair: CertificatePair
  /** Shared by all processes behind one listener, so that each can resume the sessions of the others; bytes as Latin-1. */
  readonly ticketKeys: string
  /** Whether the files hold this pair. */
  readonly current: boolean
}

export interface Certificates {
  state(): CertificateState
  onChange(listener: (state: CertificateState) => void): void
  /** Reads the files again; resolves to whether their contents are in use. */
  reload(): Promise<boolean>
  close(): void
}

interface CertificatesParts {
  readonly tls: TlsSettings
  readonly log: Pick<Log, 'info' | 'warn'>
  /** How often names, inodes, sizes and times are compared; renewals swap links, which file systems do not announce reliably. */
  readonly pollMs?: number
  /** Interval at which an invalid pair is read again. */
  readonly retryMs?: number
}

const POLL_MS = 500
const RETRY_MS = 1000

export const initialState = ({ pair }: TlsSettings): CertificateState => ({
  pair,
  ticketKeys: newTicketKeys(),
  current: true
})

// RFC 5077 §4, as OpenSSL stores them: name, HMAC key and AES key, 16 bytes each.
const newTicketKeys = (): string => randomBytes(48).toString('latin1')

export const createCertificates = (parts: CertificatesParts): Certificates => {
  const { tls, log, pollMs = POLL_MS, retryMs = RETRY_MS } = parts
  const held = holdState(initialState(tls))
  let known: string | undefined
  let retryAt = Number.POSITIVE_INFINITY
  let reading: Promise<boolean> | undefined
  let isClosed = false

  const settle = (next: CertificateState) => {
    if (!isClosed) held.set(next)
  }
  const take = (read: Awaited<ReturnType<typeof readPair>>): boolean => {
    const state = held.state()
    retryAt = 'message' in read ? performance.now() + retryMs : Number.POSITIVE_INFINITY
    if ('message' in read) {
      if (!state.current) return false
      const { variable, message } = read
      log.warn(
        { variable, fault: message },
        'the certificate files cannot be used; the previous certificate stays in use'
      )
      settle({ ...state, current: false })
      return false
    }
    const isSame = read.cert === state.pair.cert && read.key === state.pair.key
    if (isSame && state.current) return true
    const expires = new Date(read.expiresAt).toISOString()
    log.info({ expires }, isSame ? 'the certificate files can be used again' : 'a new certificate is in use')
    settle({ pair: read, ticketKeys: isSame ? state.ticketKeys : newTicketKeys(), current: true })
    return true
  }
  const reload = (): Promise<boolean> => {
    reading ??= readPair(tls).then(read => {
      reading = undefined
      return take(read)
    })
    return reading
  }
  const poll = async () => {
    const now = await fingerprint(tls)
    if (isClosed || (now === known && performance.now() < retryAt)) return
    // The first poll also compares, because the files may have changed since the settings were read.
    known = now
    await reload()
  }

  const timer = setInterval(task(poll), pollMs)
  timer.unref()
  return {
    ...held,
    reload,
    close() {
      isClosed = true
      clearInterval(timer)
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
  return { ...held, reload: async () => held.state().current, close: () => undefined }
}

/** What health and metrics need to know of a certificate. */
export interface ServedCertificate {
  /** Whether the files contain this certificate. */
  readonly current: boolean
  readonly pair: Pick<CertificatePair, 'expiresAt'>
}

/** Whether the files contain the certificate in use, and it has not expired. */
export const isWell = ({ current, pair }: ServedCertificate): boolean => current && pair.expiresAt > Date.now()

const readPair = async ({ certFile, keyFile }: TlsSettings) => {
  const [cert, key] = await Promise.all([certFile, keyFile].map(textOf))
  const read = checkPair(cert, key)
  if ('message' in read || read.expiresAt > Date.now()) return read
  return { variable: 'TLS_CERT_FILE', message: 'has expired' } as const
}

const textOf = (file: string): Promise<string | undefined> => readFile(file, 'utf8').catch(() => undefined)

const fingerprint = async ({ certFile, keyFile }: TlsSettings): Promise<string> =>
  JSON.stringify(await Promise.all([certFile, keyFile].map(stampOf)))
