// Starts directory logins: watches whether the directory can be reached, and rechecks people while it can.
import type { Logger } from 'pino'
import { createDirectory, type Directory } from '../directory/directory.ts'
import type { GroupsRead } from '../directory/groups.ts'
import type { SharedBinds } from '../directory/service-account.ts'
import { startDirectoryWatch } from '../directory/watch.ts'
import { mayHaveTwoNames } from '../settings/directory.ts'
import type { Settings } from '../settings/settings.ts'
import type { Database } from '../store/database.ts'
import { createDirectoryAccounts } from '../store/directory-accounts.ts'
import { countDirectoryLinks } from '../store/links.ts'
import { createServiceBinds } from '../store/login-attempts.ts'
import type { Users } from '../store/users.ts'
import type { RevocationFeed } from '../tokens/revocation-feed.ts'
import { keyedHash } from './keyed-hash.ts'
import { startRecheck } from './recheck.ts'

export type DirectoryParts = Awaited<ReturnType<typeof startDirectory>>

export const startDirectory = async (
  settings: Settings,
  { database, users }: { readonly database: Database; readonly users: Users },
  { feed }: { readonly feed: Pick<RevocationFeed, 'catchUp'> },
  log: Logger
) => {
  const { ldap } = settings
  // Directory login is not active.
  if (!ldap.active) return { directory: undefined, state: () => undefined, close: async () => {} }
  const directory = createDirectory(ldap, { sharedBinds: shareBinds(settings, database) })
  const watch = startDirectoryWatch(directory, log)
  await warnOfLinks(settings, database, log)
  const policy = warnOfPolicy(directory, ldap, log)
  const noticing =
    <Args extends unknown[], Result extends object>(ask: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      try {
        const result = await ask(...args)
        const { groups, groupsUnreadable } = result as GroupsRead
        // One person in too many groups says nothing about the others.
        const isOnesOwn = groupsUnreadable?.reason === 'too-many-groups'
        if (groups !== undefined || (groupsUnreadable !== undefined && !isOnesOwn)) watch.noticeGroups(groupsUnreadable)
        return result
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
        applyGroups: (userId, groups, readAt) => users.applyGroups(userId, { provider: 'ldap', groups }, readAt),
        catchUp: feed.catchUp,
        intervalMs: ldap.recheckMs,
        log
      })
    : undefined
  return {
    directory: watched,
    state: watch.state,
    close: async () => {
      await Promise.all([recheck?.close(), watch.close(), policy])
    }
  }
}

/** A refusal holds for all processes with the same password, also after a restart. Without the database each is on its own. */
const shareBinds = ({ ldap, jwt }: Settings, database: Database): SharedBinds => {
  const hash = keyedHash(jwt.secret, 'portaria service binds')
  const key = hash(JSON.stringify([ldap.url, ldap.bindDn, ldap.bindPassword]))
  const binds = createServiceBinds(database, Buffer.from(key, 'base64url').toString('hex').slice(0, 32))
  return {
    begin: () => binds.begin(ldap.timeoutMs).catch(() => 'ours'),
    // The other half is for the bind itself.
    patienceMs: ldap.timeoutMs / 2,
    release: () => binds.release().catch(() => undefined),
    refuse: pauseMs => binds.refuse(pauseMs).catch(() => undefined)
  }
}

/** A directory that keeps failures for good would add those of several windows up, and lock the account. */
const warnOfPolicy = async (
  directory: Pick<Directory, 'neverForgets'>,
  { lockoutWindowMs }: Settings['ldap'],
  log: Logger
): Promise<void> => {
  // Many directories do not show their policy.
  if (lockoutWindowMs === 0 || !(await directory.neverForgets().catch(() => false))) return
  log.warn(
    { reason: 'failures-never-forgotten' },
    'a password policy of the directory locks accounts and has no pwdFailureCountInterval, so that failures never expire there: strangers could lock accounts through the gateway in the course of several windows. Set LDAP_LOCKOUT_WINDOW=0, or pwdFailureCountInterval in the directory'
  )
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
