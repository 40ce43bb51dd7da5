// Checks in the background whether the directory responds and shows groups, and logs each change.
import type { Logger } from 'pino'
import { watchState } from '../values/watch-state.ts'
import type { Directory } from './directory.ts'
import { DirectoryFailure } from './failure.ts'

/** `refused`: it responds, but no longer accepts the service account. */
type DirectoryState = 'ok' | 'away' | 'refused' | 'unknown' | 'groups-unreadable'

/** @param directory its `check` throws DirectoryFailure if logins would fail now. */
export const startDirectoryWatch = (
  directory: Pick<Directory, 'check' | 'missingBases'>,
  log: Pick<Logger, 'warn'>
) => {
  let missing: readonly string[] = []
  let areGroupsReadable = true

  /** Names a base that does not exist, once. */
  const enterBases = (now: readonly string[]): void => {
    for (const setting of now.filter(name => !missing.includes(name)))
      log.warn(
        { setting, reason: 'base-missing' },
        `the service account finds no entry at ${setting}: nothing is found below it. Correct the setting, or the permissions of LDAP_BIND_DN`
      )
    missing = now
    if (now.includes('LDAP_GROUP_BASE')) enterGroups(new Error('LDAP_GROUP_BASE does not exist'))
  }
  const enterGroups = (failure: unknown): void => {
    const isReadable = failure === undefined
    if (isReadable === areGroupsReadable) return
    areGroupsReadable = isReadable
    if (isReadable) log.warn({ reason: 'groups-readable' }, 'the groups of people can be read from the directory again')
    else
      log.warn(
        { err: failure, reason: 'groups-unreadable' },
        'the groups of people cannot be read from the directory: what they grant stays for two rechecks, or for 24 hours without a recheck, then it lapses. Check LDAP_GROUP_BASE, LDAP_GROUP_FILTER and the permissions of the account that reads them'
      )
  }
  const { state, look, close } = watchState({
    reach: async () => {
      await directory.check()
      enterBases(await directory.missingBases())
    },
    stateAfter: error =>
      error instanceof DirectoryFailure && error.reason === 'service-account-refused' ? 'refused' : 'away',
    onChange: (next, error) => {
      if (next === 'ok') log.warn({ reason: 'directory-ok' }, 'the directory responds again')
      else log.warn({ err: error, reason: `directory-${next}` }, MESSAGES[next])
    },
    wellEveryMs: 10_000,
    illEveryMs: 2_000
  })
  return {
    state: (): DirectoryState => (state() === 'ok' && !areGroupsReadable ? 'groups-unreadable' : state()),
    /** Reports the outcome of a login or lookup, because the state may have changed. */
    notice: (error: unknown) => {
      if (error instanceof DirectoryFailure && state() === 'ok' && MAY_BE_AWAY.has(error.reason)) look()
    },
    /** Reports that somebody's groups were read; or why they could not be. */
    noticeGroups: enterGroups,
    close
  }
}

const MAY_BE_AWAY: ReadonlySet<string> = new Set([
  'service-account-refused',
  'directory-unreachable',
  'directory-timeout',
  'directory-tls',
  'directory-unavailable'
])

const MESSAGES = {
  away: 'the directory does not respond: directory logins fail. Check LDAP_URL, the certificate of the directory and the network',
  refused: 'the directory refuses the service account: directory logins fail. Check LDAP_BIND_DN and LDAP_BIND_PASSWORD'
}
