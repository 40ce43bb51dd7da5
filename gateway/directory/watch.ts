// Checks in the background whether the directory responds, and logs each change.

import type { Logger } from 'pino'
import { task } from '../values/contain.ts'
import { DirectoryFailure } from './failure.ts'

/** `refused`: it responds, but no longer accepts the service account. */
export type DirectoryState = 'ok' | 'away' | 'refused' | 'unknown'

interface DirectoryWatch {
  state(): DirectoryState
  /** Reports the outcome of a login or lookup, because the state may have changed. */
  notice(error: unknown): void
  close(): Promise<void>
}

const WELL_EVERY_MS = 10_000
const ILL_EVERY_MS = 2_000

/** @param check throws DirectoryFailure if logins would fail now. */
export const startDirectoryWatch = (check: () => Promise<void>, log: Pick<Logger, 'warn'>): DirectoryWatch => {
  let state: DirectoryState = 'unknown'
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let isClosed = false

  const enter = (next: DirectoryState, error: unknown): void => {
    const before = state
    state = next
    if (next === before || (before === 'unknown' && next === 'ok')) return
    if (next === 'ok') log.warn({ reason: 'directory-ok' }, 'the directory responds again')
    else log.warn({ err: error, reason: `directory-${next}` }, MESSAGES[next])
  }
  const look = async (): Promise<void> => {
    try {
      await check()
      enter('ok', undefined)
    } catch (error) {
      const isRefused = error instanceof DirectoryFailure && error.reason === 'service-account-refused'
      enter(isRefused ? 'refused' : 'away', error)
    }
  }
  const run = (): void => {
    clearTimeout(timer)
    running ??= look().finally(() => {
      running = undefined
      if (!isClosed) timer = setTimeout(task(run), state === 'ok' ? WELL_EVERY_MS : ILL_EVERY_MS).unref()
    })
  }
  run()
  return {
    state: () => state,
    notice: error => {
      const isNews = error instanceof DirectoryFailure && state === 'ok' && MAY_BE_AWAY.has(error.reason)
      if (isNews && !isClosed) run()
    },
    close: async () => {
      isClosed = true
      clearTimeout(timer)
      await running
    }
  }
}

const MAY_BE_AWAY: ReadonlySet<string> = new Set([
  'service-account-refused',
  'directory-unreachable',
  'directory-timeout',
  'directory-tls',
  'directory-unavailable'
])

const MESSAGES: Readonly<Record<'away' | 'refused' | 'unknown', string>> = {
  away: 'the directory does not respond: directory logins fail. Check LDAP_URL, the certificate of the directory and the network',
  refused:
    'the directory refuses the service account: directory logins fail. Check LDAP_BIND_DN and LDAP_BIND_PASSWORD',
  unknown: 'the directory has not been checked yet'
}
