// Logs one person in on one connection, either through the service account or by binding directly.
import { randomUUID } from 'node:crypto'
import { isSameDn } from '../values/ldap-text.ts'
import {
  accountState,
  type BindGuard,
  type DirectoryCount,
  directoryCount,
  type GuardedAccount,
  hasLockoutTime,
  isLockedOut,
  NO_FAILURES
} from './account.ts'
import { guardOfDn, guardOfUnknown } from './account-names.ts'
import type { Deadline } from './deadline.ts'
import { DirectoryFailure } from './failure.ts'
import { type GroupsRead, namingContextOf, readGroups } from './groups.ts'
import type { FoundEntry, LdapConnection } from './ldap-connection.ts'
import { escapeFilterValue } from './names.ts'
import { type DirectoryPerson, isActiveDirectory, isSameAccount, personOf, usernameOf } from './person.ts'
import type { DirectoryPlan } from './plan.ts'
import {
  boundNames,
  findOne,
  findTyped,
  hasUsernameAlone,
  isOnlyOne,
  isToldApart,
  sharedUsername,
  showsNoFailure
} from './search-person.ts'
import type { ServiceAccount } from './service-account.ts'

interface Login {
  /** Without the suffix of LDAP_DOMAIN. */
  readonly login: string
  /** As typed, normalised. */
  readonly full: string
  readonly password: string
}

interface LoginExchange {
  readonly plan: DirectoryPlan
  readonly deadline: Deadline
  readonly guard: BindGuard
  /** How long the directory took to refuse a bind of an account that may exist. */
  readonly onRefused: (tookMs: number) => void
  open(): Promise<LdapConnection>
}

/** Searches as the service account, binds as the person by the DN found, then reads the groups. */
export const searchThenBind = async (
  exchange: LoginExchange,
  service: ServiceAccount,
  { login, full, password }: Login
): Promise<DirectoryPerson> => {
  const { search, settings } = exchange.plan
  if (search === undefined) throw new Error('a service account requires LDAP_SEARCH_BASE')
  // A flood of guesses must not turn into a flood of searches.
  exchange.deadline.pause()
  await exchange.guard.expect(full).finally(exchange.deadline.resume)
  const connection = await exchange.open()
  await service.bind(connection)
  const readAt = performance.now()
  const found = await findTyped(connection, search, { full, login })
  if (found instanceof DirectoryFailure) {
    const unknown = { name: guardOfUnknown(login), mayHaveTwoNames: false, whose: undefined }
    return guarded(exchange, unknown, () => bindAsUnknown(connection, search.base, found))
  }
  const { entry, isShared, isUsernameUnique, ...reached } = found
  const known = personOf(entry, reached)
  // A name that several entries have, or that was only typed, would guard other accounts too, or this one several times.
  const guard = isUsernameUnique ? known.username : known.subject
  const person = {
    ...known,
    guard,
    isNameShared: isShared,
    isUsernameShared: usernameOf(entry) !== undefined && !isUsernameUnique
  }
  const counted = await countOf(connection, entry, settings)
  const account = {
    name: guard,
    mayHaveTwoNames: false,
    count: counted && { ...counted, readAt },
    whose: clueOf(person)
  }
  await guarded(exchange, account, () =>
    timed(exchange, connection.bindPerson(entry.dn, password)).catch((error: unknown) => {
      if (!(error instanceof DirectoryFailure)) throw error
      // A result 49 without further detail.
      const isPlain = error.reason === 'invalid-credentials' && error.bind === 'refused'
      throw isPlain ? error.because('wrong-password') : error
    })
  )
  refuseClosed(entry)
  const groups = await groupsAs(service, exchange.plan, connection, entry, person.username)
  await connection.unbind()
  return { ...person, ...groups }
}

const clueOf = ({ subject, names = [], entryCreatedAt: createdAt }: DirectoryPerson) => ({ subject, names, createdAt })

/** Not every directory refuses the bind of an account that its entry calls disabled. A recheck would end such a login. */
const refuseClosed = (entry: FoundEntry): void => {
  const state = accountState(entry, Date.now())
  if (state !== 'open')
    throw new DirectoryFailure(`account-${state}`, 'the entry says so, although the bind succeeded', {
      bind: 'accepted'
    })
}

/** Reports how long a refusal took, so that logins of accounts that do not exist can take as long. */
const timed = async (exchange: LoginExchange, bind: Promise<void>): Promise<void> => {
  const startedAt = performance.now()
  try {
    await bind
  } catch (error) {
    if (error instanceof DirectoryFailure && error.bind === 'refused') exchange.onRefused(performance.now() - startedAt)
    throw error
  }
}

/** Takes as long as a wrong password, so that the response does not reveal which names exist. */
const bindAsUnknown = async (connection: LdapConnection, base: string, failure: DirectoryFailure): Promise<never> => {
  try {
    await connection.bindPerson(`cn=${randomUUID()},${base}`, randomUUID())
  } catch (error) {
    if (error instanceof DirectoryFailure && error.bind !== 'refused') throw error
  }
  throw failure.after('refused')
}

const groupsAs = async (
  service: ServiceAccount,
  plan: DirectoryPlan,
  connection: LdapConnection,
  entry: FoundEntry,
  username: string
): Promise<GroupsRead> => {
  try {
    // People often lack permission to read what the service account may read.
    if (plan.groups !== undefined || isActiveDirectory(entry)) await service.bind(connection)
  } catch (error) {
    return { groupsUnreadable: connection.failureOf(error) }
  }
  return readGroups(plan, connection, entry, username)
}

const countOf = async (
  connection: LdapConnection,
  entry: FoundEntry,
  { lockoutWindowMs: windowMs, lockoutThreshold }: DirectoryPlan['settings']
): Promise<Omit<DirectoryCount, 'readAt'> | undefined> => {
  const now = Date.now()
  // A bind to a locked account is refused and not counted.
  if (isLockedOut(entry, now, windowMs)) return undefined
  const count = directoryCount(entry, now, windowMs)
  // If that lock-out has run out, its owner may log in from a known address; two wrong passwords at once would lock it again.
  if (count !== undefined && hasLockoutTime(entry))
    return { ...count, failures: Math.min(count.failures, Math.max(0, lockoutThreshold - 2)) }
  if (count !== undefined || isActiveDirectory(entry)) return count
  const showsNone = await showsNoFailure(connection, entry.dn).catch(() => false)
  return showsNone ? NO_FAILURES : undefined
}

/** Binds as the person, then reads their entry as themselves. */
export const bindThenRead = async (exchange: LoginExchange, { login, password }: Login): Promise<DirectoryPerson> => {
  const { plan } = exchange
  const bindName = plan.bindName(login)
  const bound = plan.mayHaveTwoNames ? bindName : login
  const name = plan.mayIgnoreAccents ? guardOfDn(bound) : bound
  const account = { name, mayHaveTwoNames: plan.mayHaveTwoNames, whose: { bound } }
  const connection = await guarded(exchange, account, async () => {
    const opened = await exchange.open()
    await timed(exchange, opened.bindPerson(bindName, password))
    return opened
  })
  const own = await findOwnEntry(plan, connection, login)
  if (own === undefined)
    return { ...personOf(undefined, { text: login, isExact: false, isUsernameOwn: false }), guard: name }
  // Its permits count under what was bound; a name with a domain leads to the canonical login, by what earlier logins have shown.
  const guard = plan.mayHaveTwoNames ? {} : { guard: name }
  const { entry, base } = own
  const isExact = plan.search === undefined || plan.search.comparesWholeValues
  const isUsernameOwn = hasUsernameAlone(entry, login)
  const isUsernameShared =
    plan.search !== undefined &&
    !isUsernameOwn &&
    usernameOf(entry) !== undefined &&
    !(await isOnlyOne(connection, plan.search.base, entry))
  const text = plan.search === undefined ? bound : login
  const person = personOf(entry, { text, isExact, isUsernameOwn })
  await checkIdentity(exchange, connection, { login, bindName, password }, entry, person)
  refuseClosed(entry)
  if (plan.search !== undefined && !isUsernameOwn) {
    const isOneself = await isToldApart(connection, plan.search, entry, isExact ? login : undefined)
    if (!isOneself) throw sharedUsername('accepted')
  }
  const names = plan.mayHaveTwoNames ? await boundNames(plan, connection, base, entry, bindName) : []
  const groups = await readGroups(plan, connection, entry, person.username)
  await connection.unbind()
  return { ...person, ...guard, isUsernameShared, names: [...new Set([...(person.names ?? []), ...names])], ...groups }
}

/** undefined if the directory allows no lookup; the login alone is then the person. */
const findOwnEntry = async (
  plan: DirectoryPlan,
  connection: LdapConnection,
  login: string
): Promise<{ readonly entry: FoundEntry; readonly base: string } | undefined> => {
  const noEntry = new DirectoryFailure('no-entry', 'no entry matches the filter', { bind: 'accepted' })
  if (plan.search !== undefined) {
    const { base } = plan.search
    const entry = await findOne(connection, base, plan.search.filter(login))
    if (entry === undefined) throw noEntry
    return { entry, base }
  }
  if (!plan.mayHaveTwoNames) return undefined
  const base = await namingContextOf(connection).catch((error: unknown) => {
    // Otherwise a fault would make somebody else of this person, whose subject is that of the entry.
    if (!(error instanceof DirectoryFailure) || !ALLOWS_NO_LOOKUP.has(error.reason)) throw error
    return undefined
  })
  if (base === undefined) return undefined
  // An explicit principal name takes precedence.
  const principal = escapeFilterValue(plan.bindName(login))
  for (const filter of [`(userPrincipalName=${principal})`, `(sAMAccountName=${escapeFilterValue(login)})`]) {
    const entry = await findOne(connection, base, filter)
    if (entry !== undefined) return { entry, base }
  }
  throw noEntry
}

const ALLOWS_NO_LOOKUP: ReadonlySet<string> = new Set(['no-entry', 'directory-refused'])

/** The entry must belong to the identity that was bound, or one person's password would open another's account. */
const checkIdentity = async (
  exchange: LoginExchange,
  connection: LdapConnection,
  bound: { readonly login: string; readonly bindName: string; readonly password: string },
  entry: FoundEntry,
  person: DirectoryPerson
): Promise<void> => {
  const { plan } = exchange
  if (plan.bindsByDn && isSameDn(entry.dn, bound.bindName)) return
  const identity = await connection.whoAmI()
  if (identity === undefined) {
    const account = { name: person.username, mayHaveTwoNames: false, whose: clueOf(person) }
    return guarded(exchange, account, () => connection.bindPerson(entry.dn, bound.password))
  }
  const separator = identity.indexOf(':')
  const form = identity.slice(0, separator).toLowerCase()
  const name = identity.slice(separator + 1)
  const isBoundIdentity =
    (form === 'dn' && name !== '' && isSameDn(name, entry.dn)) ||
    (form === 'u' && isSameAccount(name, entry, plan.settings.domain))
  if (!isBoundIdentity)
    throw new DirectoryFailure('foreign-entry', 'the entry found is not the identity that the bind authenticated', {
      bind: 'accepted'
    })
}

/** Only the bind itself counts towards LDAP_TIMEOUT_MS: neither waiting for a permit nor storing what came of it. */
const guarded = <T>(
  { deadline, guard }: LoginExchange,
  account: GuardedAccount,
  bind: () => Promise<T>
): Promise<T> => {
  const send = () => {
    deadline.resume()
    return bind().finally(deadline.pause)
  }
  deadline.pause()
  return guard.bind(account, send).finally(deadline.resume)
}
