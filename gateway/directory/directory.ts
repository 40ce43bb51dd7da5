// Checks a name and a password with the directory, and looks people up again later.
import { setTimeout as delay } from 'node:timers/promises'
import type { LdapSettings } from '../settings/settings.ts'
import { type AccountState, accountState, type BindGuard, unguarded } from './account.ts'
import { isStable, loginSubject } from './account-names.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { createServers } from './dial.ts'
import { DirectoryFailure } from './failure.ts'
import { type GroupsRead, groupsNamed, readGroups } from './groups.ts'
import { allOf, isMechanism, type LdapConnection, openLdapConnection, parseFilter } from './ldap-connection.ts'
import { bindThenRead, searchThenBind } from './log-in.ts'
import { foldLogin, isPlainLogin, readLogin } from './names.ts'
import { allTexts, type DirectoryEntry, firstText, subjectOf, usernameOf } from './person.ts'
import { type DirectoryPlan, planOf } from './plan.ts'
import { findOne, subjectFilter } from './search-person.ts'
import { createServiceAccount, type SharedBinds } from './service-account.ts'

/** A person as an earlier login found them. */
interface KnownAccount {
  readonly subject: string
  /** The value that was inserted into the search filter. */
  readonly login: string
}

/** `gone`: a successful search found nothing, or nothing that matches LDAP_SEARCH_FILTER. */
type LookedUp = ({ readonly state: 'open' } & GroupsRead) | { readonly state: Exclude<AccountState, 'open'> | 'gone' }

interface DirectoryOptions {
  /**
   * Earliest response to a login that the directory refused, in ms after its start. Directories hash a password only for
   * accounts that exist and are open, so a faster response would reveal which ones do.
   */
  readonly failureFloorMs?: number
  /** Monotonic ms. */
  readonly clock?: () => number
  /** The binds of the service account, shared with other processes. */
  readonly sharedBinds?: SharedBinds
  /** Opens a connection; by default to the servers of LDAP_URL. */
  readonly open?: (deadline: Deadline) => Promise<LdapConnection>
}

/** The response to a failure is delayed by at least this long anyway. */
const FAILURE_FLOOR_MS = 250

export type Directory = ReturnType<typeof createDirectory>

/** @throws Error if template, domain or filter cannot work for any login. */
export const createDirectory = (settings: LdapSettings, options: DirectoryOptions = {}) => {
  const { failureFloorMs = FAILURE_FLOOR_MS, clock } = options
  const plan = planOf(settings)
  if (plan.search !== undefined) parseFilter(plan.search.filter('x'))
  if (plan.groups !== undefined) parseFilter(plan.groups.filter('cn=x', 'x'))
  const servers = createServers(settings, clock)
  const service =
    plan.service === undefined ? undefined : createServiceAccount(plan.service, clock, options.sharedBinds)
  const pace = createRefusalPace(clock)
  const connect = async (deadline: Deadline): Promise<LdapConnection> =>
    options.open?.(deadline) ?? openLdapConnection(await servers.dial(deadline.signal), deadline, settings.timeoutMs)

  /** Within one deadline, the next server is tried if one is busy or unavailable, or closes the connection. */
  const overServers = async <T>(
    work: (open: () => Promise<LdapConnection>, deadline: Deadline) => Promise<T>
  ): Promise<T> => {
    const deadline = startDeadline(settings.timeoutMs)
    let isConnected = false
    const open = async () => {
      const connection = await deadline.within(connect(deadline))
      isConnected = true
      return connection
    }
    try {
      for (let others = servers.count - 1; ; others--) {
        isConnected = false
        try {
          return await work(open, deadline)
        } catch (error) {
          // If there was no connection, every server has been tried.
          const mayGoOn = isConnected && others > 0 && error instanceof DirectoryFailure && error.allowsAnotherServer
          if (!mayGoOn) throw error
        }
      }
    } finally {
      deadline.end()
    }
  }

  const onConnection = <T>(work: (connection: LdapConnection) => Promise<T>): Promise<T> =>
    overServers(async open => {
      const connection = await open()
      const result = await work(connection)
      await connection.unbind()
      return result
    })

  const asService = <T>(work: (connection: LdapConnection) => Promise<T>): Promise<T> =>
    onConnection(async connection => {
      await service?.bind(connection)
      return work(connection)
    })

  /** What was typed, normalised, or why no bind would be tried. */
  const readTyped = (username: string) => {
    const why = 'the login name was refused before a bind'
    const read = readLogin(username, settings.domain, service !== undefined)
    if (read.login === undefined || service !== undefined) return { ...read, why }
    const isBindable = (plan.takesAnyLogin || isPlainLogin(read.login)) && !isMechanism(plan.bindName(read.login))
    if (isBindable) return { ...read, why }
    const cannotBind = 'the login name cannot be used in the bind name'
    return { login: undefined, refusal: 'bad-login-name' as const, why: cannotBind }
  }

  return {
    /** The login to which every accepted spelling of a name is normalised; undefined if no bind would be tried. */
    normaliseLogin: (username: string) => readTyped(username).login,
    /**
     * Binds as this person on a connection of its own and reads their entry (RFC 4513 §5.1.3, RFC 4511 §4.5).
     *
     * @param username as typed; `DOMAIN\login` and `login@domain` included.
     * @param guard is consulted before each bind that the directory may count.
     * @throws DirectoryFailure within LDAP_TIMEOUT_MS, whatever the directory does, and anything the guard throws.
     */
    authenticate: async (username: string, password: string, guard: BindGuard = unguarded) => {
      const startedAt = performance.now()
      let refusedMs = 0
      const onRefused = (tookMs: number) => {
        pace.note(tookMs)
        refusedMs += tookMs
      }
      const { login, refusal, why } = readTyped(username)
      if (refusal !== undefined) throw new DirectoryFailure(refusal, why)
      checkPassword(password)
      const typed = { login, full: foldLogin(username) ?? login, password }
      try {
        return await overServers((open, deadline) => {
          const exchange = { plan, deadline, guard, onRefused, open }
          return service === undefined ? bindThenRead(exchange, typed) : searchThenBind(exchange, service, typed)
        })
      } catch (error) {
        if (error instanceof DirectoryFailure && error.countsAsBind) {
          const floorMs = Math.min(failureFloorMs, settings.timeoutMs) - (performance.now() - startedAt)
          const paceMs = Math.min(pace.refusalMs(), settings.timeoutMs) - refusedMs
          const waitMs = failureFloorMs === 0 ? 0 : Math.max(floorMs, paceMs)
          if (waitMs > 0) await delay(waitMs)
        }
        throw error
      }
    },
    /** Requires a service account. @throws DirectoryFailure if the directory gave no result. */
    lookUp: (account: KnownAccount) => asService(connection => lookUp(plan, connection, account)),
    /** DNs of the groups with this cn, at most 100. Requires a service account. @throws DirectoryFailure */
    findGroups: (cn: string) => asService(connection => groupsNamed(plan, connection, cn)),
    /** The settings whose base the service account does not find. @throws DirectoryFailure */
    missingBases: () =>
      service === undefined ? Promise.resolve([]) : asService(connection => missingBases(plan, connection)),
    /** Whether a password policy that can be read says that failures are never forgotten. @throws DirectoryFailure */
    neverForgets: () => asService(neverForgets),
    /** Whether the directory responds and accepts the service account. @throws DirectoryFailure */
    check: () =>
      onConnection(async connection => {
        if (service !== undefined) return service.bind(connection)
        // Any response will do, because not every account may read the root. What is not LDAP is none.
        await connection.search('', { scope: 'base', attributes: ['1.1'] }).catch((error: DirectoryFailure) => {
          if (!SAYS_NO.has(error.reason) || error.cause !== undefined) throw error
        })
      })
  }
}

const SAYS_NO: ReadonlySet<string> = new Set([
  'no-entry',
  'invalid-credentials',
  'directory-refused',
  'directory-protocol'
])

/** A simple bind with an empty password succeeds for anyone (RFC 4513 §5.1.2). */
const checkPassword = (password: string): void => {
  const isUsable = password.trim() !== '' && !password.includes('\u0000')
  if (!isUsable) throw new DirectoryFailure('bad-password', 'the password was refused before a bind')
}

const lookUp = async (
  plan: DirectoryPlan,
  connection: LdapConnection,
  { subject, login }: KnownAccount
): Promise<LookedUp> => {
  const { search } = plan
  if (search === undefined) throw new Error('a service account requires LDAP_SEARCH_BASE')
  const { base, filter } = search
  const withName = (name: string) => parseFilter(filter(name))
  const isStableSubject = isStable(subject)
  // Several may have that login by now.
  const byLogin = await findOne(connection, base, withName(login)).catch((error: DirectoryFailure) => {
    if (isStableSubject && error.reason === 'ambiguous-entry') return undefined
    throw error
  })
  // What was typed at that time may find somebody else by now, or have been renamed.
  const isFound =
    byLogin !== undefined &&
    (isStableSubject ? subjectOf(byLogin) : loginSubject(usernameOf(byLogin) ?? login)) === subject
  const isTheirs = isFound || !isStableSubject ? undefined : await subjectFilter(connection, base, subject)
  const entry = isFound ? byLogin : isTheirs && (await findOne(connection, base, isTheirs))
  if (entry === undefined) return { state: 'gone' }
  const state = accountState(entry, Date.now())
  if (state !== 'open') return { state }
  const username = usernameOf(entry) ?? login
  const others = [firstText(entry, 'userPrincipalName'), firstText(entry, 'mail')].flatMap(
    text => foldLogin(text) ?? []
  )
  let isAllowed = isFound
  for (const name of [login, username, ...others])
    isAllowed ||=
      isTheirs !== undefined && (await findOne(connection, base, allOf(isTheirs, withName(name)))) !== undefined
  return isAllowed ? { state, ...(await readGroups(plan, connection, entry, username)) } : { state: 'gone' }
}

type BaseSetting = 'LDAP_SEARCH_BASE' | 'LDAP_GROUP_BASE'

const missingBases = async (
  { search, groups }: DirectoryPlan,
  connection: LdapConnection
): Promise<readonly BaseSetting[]> => {
  const bases = [
    ['LDAP_SEARCH_BASE', search?.base],
    ['LDAP_GROUP_BASE', groups?.base]
  ] as const
  const missing: BaseSetting[] = []
  for (const [setting, base] of bases)
    if (base !== undefined && !(await exists(connection, base))) missing.push(setting)
  return missing
}

const exists = async (connection: LdapConnection, base: string): Promise<boolean> => {
  try {
    await connection.search(base, { scope: 'base', attributes: ['1.1'] })
    return true
  } catch (error) {
    if (error instanceof DirectoryFailure && error.reason === 'no-entry') return false
    throw error
  }
}

const MOST_POLICIES = 100

const locksForGood = (policy: DirectoryEntry): boolean =>
  Number(firstText(policy, 'pwdMaxFailure')) > 0 && Number(firstText(policy, 'pwdFailureCountInterval')) === 0

/** Whether some policy locks accounts out and keeps failures for good (draft-behera-ldap-password-policy-11 §5.2.11). */
const neverForgets = async (connection: LdapConnection): Promise<boolean> => {
  const { entries } = await connection.search('', { scope: 'base', attributes: ['namingContexts'] })
  const contexts = entries[0] === undefined ? [] : allTexts(entries[0], 'namingContexts')
  for (const context of contexts) {
    const policies = await connection.search(context, {
      filter: '(&(objectClass=pwdPolicy)(pwdLockout=TRUE))',
      attributes: ['pwdFailureCountInterval', 'pwdMaxFailure'],
      most: MOST_POLICIES
    })
    if (policies.entries.some(locksForGood)) return true
  }
  return false
}

/** After this time without a slower refusal, the estimate halves. */
const HALF_LIFE_MS = 10 * 60_000

/** @param clock monotonic ms */
export const createRefusalPace = (clock = () => performance.now()) => {
  let estimate = { ms: 0, at: clock() }
  const refusalMs = (): number => estimate.ms * 0.5 ** ((clock() - estimate.at) / HALF_LIFE_MS)
  return {
    /** 0 if nothing was refused lately. */
    refusalMs,
    note: (tookMs: number): void => {
      const current = refusalMs()
      // Only time lowers it, so that fast refusals of names that do not exist cannot. One stall counts for half.
      if (tookMs > current) estimate = { ms: current === 0 ? tookMs : (current + tookMs) / 2, at: clock() }
    }
  }
}
