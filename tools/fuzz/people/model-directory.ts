// Answers in this process as OpenLDAP or Active Directory would, and knows what really happened.
import { AndFilter, EqualityFilter, NotFilter, OrFilter, PresenceFilter } from 'ldapts'
import type { Deadline } from '../../../gateway/directory/deadline.ts'
import { bindRefusal, DirectoryFailure } from '../../../gateway/directory/failure.ts'
import {
  type Filter,
  type FoundEntry,
  type LdapConnection,
  parseFilter
} from '../../../gateway/directory/ldap-connection.ts'

export type Kind = 'openldap' | 'ad'

/** An account, with all names that it has. */
export interface ModelEntry {
  readonly uuid: string
  readonly ou: 'people' | 'contractors'
  /** uid of OpenLDAP, sAMAccountName of Active Directory. */
  login: string
  mail: string
  principal: string
  alias: string
  password: string
  isDisabled: boolean
  createdAt: number
  /** Failures that the directory holds, ms since the epoch. */
  failedAt: number[]
  lockedAt: number | undefined
}

export const BASE = 'dc=corp,dc=example'
export const DOMAIN = 'corp.example'
export const SERVICE = { dn: `cn=reader,${BASE}`, password: 'directory-reader-password' }
export const THRESHOLD = 5
export const WINDOW_MS = 1_800_000

export const dnOf = (kind: Kind, { login, ou, uuid }: Pick<ModelEntry, 'login' | 'ou' | 'uuid'>): string =>
  kind === 'openldap' ? `uid=${login},ou=${ou},${BASE}` : `cn=${uuid},ou=${ou},${BASE}`

export interface ModelDirectory {
  readonly kind: Kind
  /** The service account cannot read entryUUID: people are their logins. */
  readonly hidesUuid: boolean
  /** LDAP_URL. */
  readonly url: string
  readonly entries: ModelEntry[]
  /** Whom a bind as a person under this name is for; undefined: nobody. */
  named(name: string): ModelEntry | undefined
  /** Accounts that were locked because of the gateway. */
  readonly locked: string[]
  open(deadline: Deadline): Promise<LdapConnection>
  /** What has changed in `entries` takes effect. */
  publish(): Promise<void>
  /** What the directory has changed by itself is in `entries`. */
  observe(): Promise<void>
  /** Some other client fails. */
  failElsewhere(entry: ModelEntry): void
}

export const createModelDirectory = (kind: Kind, hidesUuid: boolean): ModelDirectory => {
  const entries: ModelEntry[] = []
  const locked: string[] = []

  const recent = ({ failedAt }: ModelEntry): number[] => {
    const now = Date.now()
    const last = failedAt.at(-1) ?? 0
    // Active Directory forgets all together, OpenLDAP one by one.
    if (kind === 'ad') return now - last < WINDOW_MS ? failedAt : []
    return failedAt.filter(at => now - at < WINDOW_MS)
  }

  /** Whether this failure locks the account. */
  const fail = (entry: ModelEntry): boolean => {
    entry.failedAt = [...recent(entry), Date.now()]
    const locks = entry.failedAt.length >= THRESHOLD
    if (locks) entry.lockedAt = Date.now()
    return locks
  }

  const check = (entry: ModelEntry | undefined, password: string): void => {
    if (entry === undefined) throw bindRefusal(49, '', undefined)
    if (isLocked(entry)) throw bindRefusal(49, kind === 'ad' ? 'data 775, v1' : '', 1)
    if (entry.password !== password) {
      if (fail(entry)) locked.push(entry.uuid)
      throw bindRefusal(49, kind === 'ad' ? 'data 52e, v1' : '', undefined)
    }
    if (entry.isDisabled) throw bindRefusal(49, kind === 'ad' ? 'data 533, v1' : '', undefined)
    entry.failedAt = []
    entry.lockedAt = undefined
  }

  /** Active Directory takes an explicit principal name before one that it makes of sAMAccountName. */
  const named = (name: string): ModelEntry | undefined => {
    const text = name.toLowerCase()
    const byDn = entries.find(entry => dnOf(kind, entry).toLowerCase() === text)
    if (byDn !== undefined || kind === 'openldap') return byDn
    const [label, login] = text.split('\\')
    if (login !== undefined) return label === 'corp' ? entries.find(entry => entry.login === login) : undefined
    const byPrincipal = entries.find(entry => entry.principal === text)
    const at = text.lastIndexOf('@')
    const isOurs = text.slice(at + 1) === DOMAIN
    return byPrincipal ?? (isOurs ? entries.find(entry => entry.login === text.slice(0, at)) : undefined)
  }

  const openConnection = (): LdapConnection => {
    let bound: ModelEntry | undefined
    return {
      bindPerson: async (name, password) => {
        const entry = named(name)
        check(entry, password)
        bound = entry
      },
      bindOther: async name => {
        if (name !== SERVICE.dn) throw bindRefusal(49, '', undefined)
      },
      search: async (base, { scope = 'sub', filter, most = 2 }) => {
        const found = base === '' ? [rootOf(kind)] : entriesBelow(base, scope)
        const parsed = typeof filter === 'string' ? parseFilter(filter) : filter
        const matching = found.filter(entry => parsed === undefined || matches(parsed, entry))
        return { entries: matching.slice(0, most), isCut: matching.length > most }
      },
      whoAmI: async () => {
        if (bound === undefined) return ''
        return kind === 'ad' ? `u:CORP\\${bound.login}` : `dn:${dnOf(kind, bound)}`
      },
      failureOf: error =>
        error instanceof DirectoryFailure ? error : new DirectoryFailure('directory-protocol', String(error)),
      within: work => work,
      unbind: async () => {}
    }
  }

  const entriesBelow = (base: string, scope: 'base' | 'sub'): FoundEntry[] => {
    const wanted = base.toLowerCase()
    return entries
      .map(entry => ({ dn: dnOf(kind, entry).toLowerCase(), entry }))
      .filter(({ dn }) => (scope === 'base' ? dn === wanted : dn.endsWith(wanted)))
      .map(({ entry }) => shown(kind, entry, hidesUuid))
  }

  return {
    kind,
    hidesUuid,
    url: 'ldap://127.0.0.1:1',
    publish: async () => {},
    observe: async () => {},
    entries,
    named,
    locked,
    open: async () => openConnection(),
    failElsewhere: fail
  }
}

export const isLocked = ({ lockedAt }: ModelEntry): boolean =>
  lockedAt !== undefined && Date.now() - lockedAt < WINDOW_MS

const rootOf = (kind: Kind): FoundEntry =>
  kind === 'ad' ? { dn: '', defaultNamingContext: [BASE] } : { dn: '', namingContexts: [BASE] }

export const generalized = (at: number): string => `${new Date(at).toISOString().replace(/[-:T]|\.\d+Z/g, '')}Z`
const fileTime = (at: number): string => String((BigInt(at) + 11_644_473_600_000n) * 10_000n)

/** The attributes of an entry, as a library returns them. */
const shown = (kind: Kind, entry: ModelEntry, hidesUuid: boolean): FoundEntry => {
  const common = { dn: dnOf(kind, entry), mail: [entry.mail], employeeNumber: [entry.alias], cn: [entry.login] }
  const names = Object.fromEntries(Object.entries(common).filter(([, value]) => value[0] !== ''))
  if (kind === 'openldap')
    return {
      ...names,
      dn: common.dn,
      uid: [entry.login],
      ...(hidesUuid ? {} : { entryUUID: [entry.uuid] }),
      createTimestamp: [generalized(entry.createdAt)],
      ...(entry.failedAt.length === 0 ? {} : { pwdFailureTime: entry.failedAt.map(generalized) }),
      ...(entry.lockedAt === undefined ? {} : { pwdAccountLockedTime: [generalized(entry.lockedAt)] }),
      ...(entry.isDisabled ? { nsAccountLock: ['TRUE'] } : {})
    }
  return {
    ...names,
    dn: common.dn,
    sAMAccountName: [entry.login],
    ...(entry.principal === '' ? {} : { userPrincipalName: [entry.principal] }),
    objectGUID: [Buffer.from(entry.uuid.replaceAll('-', ''), 'hex')],
    whenCreated: [generalized(entry.createdAt)],
    badPwdCount: [String(entry.failedAt.length)],
    badPasswordTime: [fileTime(entry.failedAt.at(-1) ?? 0)],
    lockoutTime: [entry.lockedAt === undefined ? '0' : fileTime(entry.lockedAt)],
    userAccountControl: [entry.isDisabled ? '514' : '512']
  }
}

const valuesOf = (entry: FoundEntry, attribute: string): unknown[] => {
  const key = Object.keys(entry).find(name => name.toLowerCase() === attribute.toLowerCase())
  return key === undefined ? [] : [entry[key]].flat()
}

const textOf = (value: unknown): string =>
  Buffer.isBuffer(value) ? value.toString('latin1').toLowerCase() : String(value).toLowerCase()

const matches = (filter: Filter, entry: FoundEntry): boolean => {
  if (filter instanceof AndFilter) return filter.filters.every(part => matches(part, entry))
  if (filter instanceof OrFilter) return filter.filters.some(part => matches(part, entry))
  if (filter instanceof NotFilter) return !matches(filter.filter, entry)
  if (filter instanceof PresenceFilter) return valuesOf(entry, filter.attribute).length > 0
  if (filter instanceof EqualityFilter) {
    const wanted = textOf(filter.value)
    return valuesOf(entry, filter.attribute).some(value => textOf(value) === wanted)
  }
  // Groups in a chain: nobody has any here.
  return false
}
