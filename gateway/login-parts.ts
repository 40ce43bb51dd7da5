// Starts directory and cloud logins, and watches whether their servers can be reached.

import type { Logger } from 'pino'
import { createOAuthClient, type OAuthClient } from './cloud/client.ts'
import { warnOfCloudLinks } from './cloud/link-warnings.ts'
import { createDirectory, type Directory } from './directory/directory.ts'
import { type DirectoryState, startDirectoryWatch } from './directory/watch.ts'
import { startRecheck } from './login/recheck.ts'
import { type Reachability, watchReachability } from './observe/reachability.ts'
import { mayHaveTwoNames } from './settings/directory.ts'
import type { Settings } from './settings/settings.ts'
import { createDirectoryAccounts } from './store/directory-accounts.ts'
import { countDirectoryLinks } from './store/links.ts'
import type { Stores } from './stores.ts'
import type { TokenParts } from './token-parts.ts'

export interface DirectoryParts {
  /** undefined: directory login is not active. */
  readonly directory: Directory | undefined
  /** undefined: directory login is not active. */
  state(): DirectoryState | undefined
  close(): Promise<void>
}

export const startDirectory = async (
  settings: Settings,
  { database, users }: Stores,
  { feed }: Pick<TokenParts, 'feed'>,
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

/** Without entries to read, people known by a stable subject would be new people. */
const warnOfLinks = async ({ ldap }: Settings, database: Stores['database'], log: Logger): Promise<void> => {
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

export interface CloudParts {
  /** undefined: no cloud login. */
  readonly client: OAuthClient | undefined
  /** undefined: no cloud login. */
  readonly state: (() => Reachability) | undefined
  close(): void
}

export const startCloud = async ({ cloudidp }: Settings, { database }: Stores, log: Logger): Promise<CloudParts> => {
  await warnOfCloudLinks(cloudidp, database, log)
  if (!cloudidp.active) return { client: undefined, state: undefined, close: () => undefined }
  const client = createOAuthClient({ settings: cloudidp, log })
  const { state, close } = watchReachability({
    reach: client.reach,
    log,
    away: 'the cloud provider cannot be reached; cloud logins fail until it responds again',
    back: 'the cloud provider can be reached again'
  })
  return { client, state, close }
}
