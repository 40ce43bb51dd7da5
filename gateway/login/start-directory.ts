// Starts directory logins: watches whether the directory can be reached, and rechecks people while it can.

import type { Logger } from 'pino'
import { createDirectory, type Directory } from '../directory/directory.ts'
import { type DirectoryState, startDirectoryWatch } from '../directory/watch.ts'
import { mayHaveTwoNames } from '../settings/directory.ts'
import type { Settings } from '../settings/settings.ts'
import type { Database } from '../store/database.ts'
import { createDirectoryAccounts } from '../store/directory-accounts.ts'
import { countDirectoryLinks } from '../store/links.ts'
import type { Users } from '../store/users.ts'
import type { RevocationFeed } from '../tokens/revocation-feed.ts'
import { startRecheck } from './recheck.ts'

export interface DirectoryParts {
  /** undefined: directory login is not active. */
  readonly directory: Directory | undefined
  /** undefined: directory login is not active. */
  state(): DirectoryState | undefined
  close(): Promise<void>
}

export const startDirectory = async (
  settings: Settings,
  { database, users }: { readonly database: Database; readonly users: Users },
  { feed }: { readonly feed: Pick<RevocationFeed, 'catchUp'> },
  log: Logger
): Promise<DirectoryParts> => {
  const { ldap } = settings
  if (!ldap.active) return { directory: undefined, state: () => undefined, close: async () => {} }
  const directory = createDirectory(ldap)
  const watch = startDirectoryWatch(directory.check, log)
  await warnOfLinks(settings, database, log)
  const noticing =
    <Args extends unknown[], Result>(ask: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      try {
        return await ask(...args)
      } catch (error) {
        watch.notice(error)
        throw error
      }
    }
  const watched = {
    ...directory,
    authenticate: noticing(directory.authenticate),
    lookUp: noticing(directory.lookUp)
  }
  const isRechecked = ldap.bindDn !== undefined && ldap.recheckMs > 0
  const recheck = isRechecked
    ? startRecheck({
        directory: watched,
        accounts: createDirectoryAccounts(database),
        applyGroups: (userId, groups) => users.applyGroups(userId, { provider: 'ldap', groups }),
        catchUp: feed.catchUp,
        intervalMs: ldap.recheckMs,
        log
      })
    : undefined
  return {
    directory: watched,
    state: watch.state,
    close: async () => {
      await Promise.all([recheck?.close(), watch.close()])
    }
  }
}

/** If entries cannot be read, people known by a stable subject would become new people. */
const warnOfLinks = async ({ ldap }: Settings, database: Database, log: Logger): Promise<void> => {
  const { byLogin, bySubject } = await countDirectoryLinks(database)
  const readsEntries = ldap.searchBase !== undefined || mayHaveTwoNames(ldap)
  if (!readsEntries && bySubject > 0)
    log.warn(
      { people: bySubject, reason: 'links-unreadable' },
      'these people are linked by a stable subject, which is not read without LDAP_SEARCH_BASE: they would log in as new people. Set LDAP_SEARCH_BASE, or see `portaria relink`'
    )
  if (readsEntries && byLogin > 0)
    log.info(
      { people: byLogin, reason: 'links-by-login' },
      'these people are linked by their login name; at the next login of each, the link changes to the stable subject'
    )
}
