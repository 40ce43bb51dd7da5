// Checks a name and a password with the directory, and looks people up again later.
import { setTimeout as delay } from 'node:timers/promises'
import type { LdapSettings } from '../settings/settings.ts'
import { type AccountState, accountState, type BindGuard, unguarded } from './account.ts'
import { loginSubject } from './account-names.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { createServers } from './dial.ts'
import { DirectoryFailure } from './failure.ts'
import { type GroupsRead, groupsNamed, readGroups } from './groups.ts'
import { allOf, isMechanism, type LdapConnection, openLdapConnection, parseFilter } from './ldap-connection.ts'
import { bindThenRead, type Login, searchThenBind } from './log-in.ts'
import { foldLogin, isPlainLogin, readLogin } from './names.ts'
import { usernameOf } from './person.ts'
import { type DirectoryPlan, planOf } from './plan.ts'
import { missingBases, neverForgets } from './preconditions.ts'
import { findOne, subjectFilter } from './search-person.ts'
import { createServiceAccount } from './service-account.ts'

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
  /** Opens a connection; by default to the servers of LDAP_URL. */
  readonly open?: (deadline: Deadline) => Promise<LdapConnection>
}

const MAX_PASSWORD_LENGTH = 1024
/** The response to a failure is delayed by at least this long anyway. */
export const FAILURE_FLOOR_MS = 250

export type Directory = ReturnType<typeof createDirectory>

/** @throws Error if template, domain or filter cannot work for any login. */
export const createDirectory = (settings: LdapSettings, options: DirectoryOptions = {}) => {
  const { failureFloorMs = FAILURE_FLOOR_MS, clock } = options
  const plan = planOf(settings)
  if (plan.search !== undefined) parseFilter(plan.search.filter('x'))
  if (plan.groups !== undefined) parseFilter(plan.groups.filter('cn=x', 'x'))
  const servers = createServers(settings, clock)
  const service = plan.service === undefined ? undefined : createServiceAccount(plan.service, clock)
  const pace = createRefusalPace(clock)
  const connect = async (deadline: Deadline): Promise<LdapConnection> =>
    openLdapConnection(await servers.dial(deadline.signal), deadline, settings.timeoutMs)
  const parts = { plan, servers, connect: options.open ?? connect }

  const asService = <T>(work: (connection: LdapConnection) => Promise<T>): Promise<T> =>
    onConnection(parts, async connection => {
      await service?.bind(connection)
      return work(connection)
    })

  return {
    /** The login to which every accepted spelling of a name is normalised; undefined if no bind would be tried. */
    normaliseLogin: (username: string) => {
      const read = readLogin(username, settings.domain, service !== undefined)
      return read.login !== undefined && isBindable(plan, read.login) ? read.login : undefined
    },
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
      const login = { ...loginOf(plan, username), password }
      checkPassword(password)
      try {
        return await overServers(parts, (open, deadline) => {
          const logIn = { plan, deadline, guard, onRefused, open }
          return service === undefined ? bindThenRead(logIn, login) : searchThenBind(logIn, service, login)
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
      onConnection(parts, async connection => {
        if (service !== undefined) return service.bind(connection)
        // Any response will do, because not every account may read the root.
        await connection.search('', { scope: 'base', attributes: ['1.1'] }).catch((error: DirectoryFailure) => {
          if (!SAYS_NO.has(error.reason)) throw error
        })
      })
  }
}

const SAYS_NO: ReadonlySet<string> = new Set(['no-entry', 'directory-refused', 'directory-protocol'])

interface DirectoryParts {
  readonly plan: DirectoryPlan
  readonly servers: { readonly count: number }
  readonly connect: (deadline: Deadline) => Promise<LdapConnection>
}

const loginOf = (plan: DirectoryPlan, username: string): Pick<Login, 'login' | 'full'> => {
  const read = readLogin(username, plan.settings.domain, plan.service !== undefined)
  if (read.refusal !== undefined) throw new DirectoryFailure(read.refusal, 'the login name was refused before a bind')
  if (!isBindable(plan, read.login))
    throw new DirectoryFailure('bad-login-name', 'the login name cannot be used in the bind name')
  return { login: read.login, full: foldLogin(username) ?? read.login }
}

const isBindable = (plan: DirectoryPlan, login: string): boolean => {
  if (plan.service !== undefined) return true
  return (plan.takesAnyLogin || isPlainLogin(login)) && !isMechanism(plan.bindName(login))
}

/** A simple bind with an empty password succeeds for anyone (RFC 4513 §5.1.2). */
const checkPassword = (password: string): void => {
  const isUsable = password.trim() !== '' && !password.includes('\u0000') && password.length <= MAX_PASSWORD_LENGTH
  if (!isUsable) throw new DirectoryFailure('bad-password', 'the password was refused before a bind')
}

const onConnection = <T>(parts: DirectoryParts, work: (connection: LdapConnection) => Promise<T>): Promise<T> =>
  overServers(parts, async open => {
    const connection = await open()
    const result = await work(connection)
    await connection.unbind()
    return result
  })

/** Within one deadline, the next server is tried if one is busy or unavailable, or closes the connection. */
const overServers = async <T>(
  { plan, servers, connect }: DirectoryParts,
  work: (open: () => Promise<LdapConnection>, deadline: Deadline) => Promise<T>
): Promise<T> => {
  const { timeoutMs } = plan.settings
  const deadline = startDeadline(timeoutMs)
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

const lookUp = async (
  plan: DirectoryPlan,
  connection: LdapConnection,
  { subject, login }: KnownAccount
): Promise<LookedUp> => {
  const { search } = plan
  if (search === undefined) throw new Error('a service account requires LDAP_SEARCH_BASE')
  const isTheirs = subjectFilter(subject)
  const matching = (name: string) => {
    const filter = parseFilter(search.filter(name))
    return isTheirs === undefined ? filter : allOf(isTheirs, filter)
  }
  const matched = await findOne(connection, search.base, matching(login))
  const entry = matched ?? (isTheirs && (await findOne(connection, search.base, isTheirs)))
  // Without a stable subject, what was typed at that time may find somebody else by now.
  const isAnother =
    isTheirs === undefined && entry !== undefined && loginSubject(usernameOf(entry) ?? login) !== subject
  if (entry === undefined || isAnother) return { state: 'gone' }
  const state = accountState(entry, Date.now())
  if (state !== 'open') return { state }
  const username = usernameOf(entry) ?? login
  // A login may have been renamed since then.
  const isAllowed = matched !== undefined || (await findOne(connection, search.base, matching(username))) !== undefined
  return isAllowed ? { state, ...(await readGroups(plan, connection, entry, username)) } : { state: 'gone' }
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
