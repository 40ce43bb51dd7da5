// A name and a password have been judged by the directory, and the person it vouches for is known.
import { setTimeout as delay } from 'node:timers/promises'
import { Client, FilterParser, PasswordPolicyControl, ResultCodeError, SASL_MECHANISMS } from 'ldapts'
import { isParentDn, isSameDn } from '../routes/distinguished-names.ts'
import type { LdapSettings } from '../settings/settings.ts'
import { connectDirectory, type DirectoryConnection } from './connection.ts'
import { type BindOutcome, bindRefusal, DirectoryFailure, policyReason, searchRefusal } from './failure.ts'
import { isPlainLogin, readLogin } from './names.ts'
import { type DirectoryEntry, type DirectoryPerson, ENTRY_ATTRIBUTES, isSameAccount, personOf } from './person.ts'
import { type DirectoryPlan, planOf } from './plan.ts'

export interface Directory {
  /**
   * Binds as this person on a connection of its own and reads their entry (RFC 4513 §5.1.3, RFC 4511 §4.5).
   *
   * @param username as typed; `DOMAIN\login` and `login@domain` included.
   * @throws DirectoryFailure within LDAP_TIMEOUT_MS, whatever the directory does.
   */
  authenticate(username: string, password: string): Promise<DirectoryPerson>
  /** The login that every accepted spelling of a name leads to; undefined when no bind would be tried. */
  normaliseLogin(username: string): string | undefined
}

interface DirectoryOptions {
  /**
   * Earliest answer to a login that the directory refused, in ms after its start. Directories hash a password only for
   * accounts that exist and are open, so that their own haste would tell which ones do.
   */
  readonly failureFloorMs?: number
  /** Logins under way at once. */
  readonly maxConcurrent?: number
}

const MAX_PASSWORD_LENGTH = 1024
/** The answer waits for so long after a failure anyway. */
export const FAILURE_FLOOR_MS = 250
const EXPLANATION_TIMEOUT_MS = 200

/** @throws Error when template, domain or filter cannot work for any login. */
export const createDirectory = (settings: LdapSettings, options: DirectoryOptions = {}): Directory => {
  const { failureFloorMs = FAILURE_FLOOR_MS, maxConcurrent = 1000 } = options
  const plan = planOf(settings)
  if (plan.search !== undefined) FilterParser.parseString(plan.search.filter('x'))
  let underWay = 0

  return {
    normaliseLogin: username => {
      const { login } = readLogin(username, settings.domain)
      return login !== undefined && isBindable(plan, login) ? login : undefined
    },
    authenticate: async (username, password) => {
      const startedAt = performance.now()
      const login = loginOf(plan, username)
      checkPassword(password)
      if (underWay >= maxConcurrent) throw new DirectoryFailure('too-many-logins', 'too many logins are under way')
      underWay += 1
      try {
        return await exchange(plan, login, password)
      } catch (error) {
        const floorMs = Math.min(failureFloorMs, settings.timeoutMs) - (performance.now() - startedAt)
        if (error instanceof DirectoryFailure && error.countsAsBind && floorMs > 0) await delay(floorMs)
        throw error
      } finally {
        underWay -= 1
      }
    }
  }
}

const loginOf = (plan: DirectoryPlan, username: string): string => {
  const { login, refusal } = readLogin(username, plan.settings.domain)
  if (refusal !== undefined) throw new DirectoryFailure(refusal, 'the login name was refused before any bind')
  if (!isBindable(plan, login))
    throw new DirectoryFailure('bad-login-name', 'the login name does not fit the bind name')
  return login
}

const isBindable = (plan: DirectoryPlan, login: string): boolean =>
  (plan.bindsByDn || isPlainLogin(login)) &&
  // ldapts turns such a bind name into a SASL bind.
  !SASL_MECHANISMS.some(mechanism => mechanism === plan.bindName(login).toUpperCase())

/** A simple bind with an empty password succeeds for anybody (RFC 4513 §5.1.2). */
const checkPassword = (password: string): void => {
  const isUsable = password.trim() !== '' && !password.includes('\u0000') && password.length <= MAX_PASSWORD_LENGTH
  if (!isUsable) throw new DirectoryFailure('bad-password', 'the password was refused before any bind')
}

/** One connection, one deadline, one person; at the end nothing of it is left. */
const exchange = async (plan: DirectoryPlan, login: string, password: string): Promise<DirectoryPerson> => {
  const { timeoutMs } = plan.settings
  const controller = new AbortController()
  const { signal } = controller
  const timer = setTimeout(
    () => controller.abort(new DirectoryFailure('directory-timeout', `no end after ${timeoutMs} ms`)),
    timeoutMs
  )
  const ended = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  ended.catch(() => {})
  const within = <T>(work: Promise<T>): Promise<T> => Promise.race([work, ended])

  let bind: BindOutcome = 'unsent'
  let connection: DirectoryConnection | undefined
  try {
    connection = await within(connectDirectory(plan.settings, signal))
    const client = clientOn(connection, plan.settings)
    bind = 'unanswered'
    await within(bindAs(client, plan.bindName(login), password)).catch(async (error: unknown) => {
      if (!isPlainRefusal(error)) throw error
      const why = await within(explainRefusal(plan, client, connection, login, signal)).catch(() => undefined)
      throw why === undefined ? error : error.because(why)
    })
    bind = 'accepted'
    const person = await within(readPerson(plan, client, connection, login))
    // A polite end; that it was said matters to the directory's log only.
    await within(client.unbind()).catch(() => {})
    return person
  } catch (error) {
    const failure = failureOf(error, connection)
    throw failure.bind === 'unsent' ? failure.after(bind) : failure
  } finally {
    clearTimeout(timer)
    controller.abort()
  }
}

const clientOn = ({ stream }: DirectoryConnection, settings: LdapSettings): Client => {
  let isTaken = false
  return new Client({
    // The connection is made and secured already; `ldap:` keeps the library from doing so again.
    url: 'ldap://directory',
    timeout: settings.timeoutMs,
    createConnection: () => {
      if (isTaken) throw new Error('the connection to the directory was lost')
      isTaken = true
      return stream
    }
  })
}

const bindAs = async (client: Client, bindName: string, password: string): Promise<void> => {
  const policy = new PasswordPolicyControl()
  try {
    await client.bind(bindName, password, policy)
  } catch (error) {
    if (!(error instanceof ResultCodeError)) throw error
    throw bindRefusal(error.code, diagnosticOf(error), policy.value?.error)
  }
  const reason = policyReason(policy.value?.error)
  if (reason !== undefined)
    throw new DirectoryFailure(reason, 'the password policy allows no login', { bind: 'refused' })
}

/** A result 49 that says nothing more. */
const isPlainRefusal = (error: unknown): error is DirectoryFailure =>
  error instanceof DirectoryFailure && error.reason === 'invalid-credentials' && error.bind === 'refused'

/**
 * Why a bind was refused, as far as anybody may know: after a refused bind the connection is anonymous (RFC 4513 §4).
 * For the log alone. An entry that is hidden is answered like one that is absent, but without the entry above it
 * (matchedDN): only a directory that shows this one is believed that there is no such person.
 */
const explainRefusal = async (
  plan: DirectoryPlan,
  client: Client,
  connection: DirectoryConnection | undefined,
  login: string,
  signal: AbortSignal
): Promise<'wrong-password' | 'unknown-user' | undefined> => {
  const bindName = plan.bindName(login)
  const where = plan.bindsByDn ? { base: bindName } : plan.search && { ...plan.search }
  if (where === undefined || connection === undefined) return undefined
  const filter = 'filter' in where ? { scope: 'sub' as const, filter: where.filter(login) } : { scope: 'base' as const }
  const search = client.search(where.base, { ...filter, attributes: ['1.1'], sizeLimit: 2, timeLimit: 1 })
  const patience = delay(EXPLANATION_TIMEOUT_MS, undefined, { signal, ref: false })
  try {
    const found = await Promise.race([search, patience])
    return found?.searchEntries.length === 1 ? 'wrong-password' : undefined
  } catch (error) {
    const isAbsent = error instanceof ResultCodeError && error.code === 32 && plan.bindsByDn
    return isAbsent && isParentDn(connection.lastMatchedDn(), bindName) ? 'unknown-user' : undefined
  }
}

/** The server's own text, without what ldapts adds. */
const diagnosticOf = (error: Error): string => error.message.replace(/ ?Code: 0x[0-9a-f]+$/, '')

const readPerson = async (
  plan: DirectoryPlan,
  client: Client,
  connection: DirectoryConnection,
  login: string
): Promise<DirectoryPerson> => {
  if (plan.search === undefined) return personOf(login, undefined)
  const entry = await findEntry(plan.search.base, plan.search.filter(login), plan, client, connection)
  await checkIdentity(plan, client, login, entry)
  return personOf(login, entry)
}

const findEntry = async (
  base: string,
  filter: string,
  { settings }: DirectoryPlan,
  client: Client,
  { lastResultCode }: DirectoryConnection
): Promise<DirectoryEntry & { dn: string }> => {
  const search = client.search(base, {
    scope: 'sub',
    filter,
    // Two are enough to know that one is not the only one.
    sizeLimit: 2,
    timeLimit: Math.ceil(settings.timeoutMs / 1000),
    attributes: [...ENTRY_ATTRIBUTES],
    explicitBufferAttributes: [...ENTRY_ATTRIBUTES]
  })
  // Referrals (`searchReferences`) are left where they are: nobody's password goes to an address out of a response.
  const { searchEntries } = await search.catch((error: unknown) => {
    throw error instanceof ResultCodeError ? searchRefusal('search', error.code, diagnosticOf(error)) : error
  })
  const [entry, another] = searchEntries
  // ldapts does not tell a search that the server cut short (sizeLimitExceeded) from a finished one.
  if (another !== undefined || lastResultCode() === 4) {
    throw new DirectoryFailure('ambiguous-entry', 'more than one entry matches the filter')
  }
  if (entry === undefined) throw new DirectoryFailure('no-entry', 'no entry matches the filter')
  return entry
}

/** The entry must be that of the identity that was bound, or one person's password would open another's account. */
const checkIdentity = async (
  plan: DirectoryPlan,
  client: Client,
  login: string,
  entry: DirectoryEntry & { dn: string }
): Promise<void> => {
  if (plan.bindsByDn && isSameDn(entry.dn, plan.bindName(login))) return
  const identity = await whoAmI(client)
  const separator = identity.indexOf(':')
  const form = identity.slice(0, separator).toLowerCase()
  const name = identity.slice(separator + 1)
  const isBoundIdentity =
    (form === 'dn' && name !== '' && isSameDn(name, entry.dn)) ||
    (form === 'u' && isSameAccount(name, entry, plan.settings.domain))
  if (!isBoundIdentity)
    throw new DirectoryFailure('foreign-entry', 'the entry found is not the identity that was bound')
}

/** RFC 4532 §2.1. */
const whoAmI = async (client: Client): Promise<string> => {
  try {
    return (await client.exop('1.3.6.1.4.1.4203.1.11.3')).value ?? ''
  } catch (error) {
    throw error instanceof ResultCodeError ? searchRefusal('WhoAmI', error.code, diagnosticOf(error)) : error
  }
}

const failureOf = (error: unknown, connection: DirectoryConnection | undefined): DirectoryFailure => {
  if (error instanceof DirectoryFailure) return error
  const fault = connection?.fault()
  if (fault !== undefined) return new DirectoryFailure('directory-protocol', fault.message, { cause: fault })
  const isClosed = connection?.stream.destroyed === true
  const reason = isClosed ? 'directory-unreachable' : 'directory-protocol'
  return new DirectoryFailure(reason, error instanceof Error ? error.message.slice(0, 200) : 'failed', { cause: error })
}
