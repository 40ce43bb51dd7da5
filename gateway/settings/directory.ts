// Reads the directory's settings: if enabled, they must be complete, verified and encrypted, or cause a warning.
import { isLoopbackHost } from '../values/addresses.ts'
import { parseDn, parseLdapFilter } from '../values/ldap-text.ts'
import { MAX_TIMER_MS } from '../values/quantities.ts'
import { checkUrl, type Reader, readAuthorities } from './reader.ts'
import type { VariableName } from './table.ts'

export type LdapSettings = Readonly<ReturnType<typeof readLdap>>

/** What the limits on failed logins need. */
export const readLockout = (reader: Reader) => ({
  timeoutMs: reader.duration('LDAP_TIMEOUT_MS'),
  lockoutThreshold: reader.integer('LDAP_LOCKOUT_THRESHOLD', { min: 2, max: 10_000 }),
  /** 0: the directory never forgets failures. */
  lockoutWindowMs: reader.duration('LDAP_LOCKOUT_WINDOW', { min: 0, max: MAX_TIMER_MS })
})

export const readLdap = (reader: Reader, isListed: boolean, warnings: string[]) => {
  const active = reader.boolean('LDAP_ENABLED') && isListed
  const startTls = reader.boolean('LDAP_STARTTLS')
  const insecure = reader.boolean('LDAP_INSECURE')
  const ldap = {
    /** LDAP_ENABLED is true and AUTH_PROVIDERS, if set, lists `ldap`. */
    active,
    /** One address, or several separated by commas, in the order in which they are tried. */
    url: reader.text('LDAP_URL') ?? '',
    domain: reader.matching('LDAP_DOMAIN', DOMAIN, 'must be a domain name, e.g. corp.example'),
    userDnTemplate: reader.text('LDAP_USER_DN_TEMPLATE'),
    /** The service account that searches for people; undefined: people bind first. */
    bindDn: reader.text('LDAP_BIND_DN'),
    bindPassword: reader.text('LDAP_BIND_PASSWORD'),
    searchBase: reader.text('LDAP_SEARCH_BASE'),
    searchFilter: reader.text('LDAP_SEARCH_FILTER'),
    groupBase: reader.text('LDAP_GROUP_BASE'),
    groupFilter: reader.text('LDAP_GROUP_FILTER'),
    /** Interval at which people with a live session are looked up again; 0: never. */
    recheckMs: reader.duration('LDAP_RECHECK', { min: 0, max: MAX_TIMER_MS }),
    /** PEM text. */
    ca: readAuthorities(reader, 'LDAP_CA_FILE'),
    startTls,
    insecure,
    ...readLockout(reader)
  }
  checkAddress(reader, ldap, warnings)
  checkNames(reader, ldap)
  checkServiceAccount(reader, ldap, warnings)
  checkSearch(reader, ldap)
  checkGroups(reader, ldap)
  checkLockout(reader, ldap)
  return ldap
}

const DOMAIN = /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?$/

const checkAddress = (reader: Reader, ldap: LdapSettings, warnings: string[]): void => {
  if (ldap.url === '') {
    if (ldap.active)
      reader.mistake('LDAP_URL', 'is required when LDAP_ENABLED is true, for example ldaps://dc1.corp.example:636')
    return
  }
  const urls = ldap.url
    .split(',')
    .map(text => checkUrl(reader, 'LDAP_URL', text.trim(), { schemes: ['ldaps:', 'ldap:'], path: false }))
    .filter(url => url !== undefined)
  if (ldap.startTls && urls.some(url => url.protocol === 'ldaps:')) {
    reader.mistake('LDAP_STARTTLS', 'can be used only with ldap://; ldaps:// is encrypted from the start')
  }
  const plain = ldap.startTls ? [] : urls.filter(url => url.protocol === 'ldap:')
  if (urls.length > 0 && plain.length === urls.length && ldap.ca !== undefined)
    reader.mistake('LDAP_CA_FILE', 'has no effect without ldaps:// or LDAP_STARTTLS')
  if (!ldap.active || plain.every(url => isLoopbackHost(url.hostname))) return
  if (ldap.insecure) warnings.push('Passwords are sent to the directory in clear text (LDAP_INSECURE)')
  else
    reader.mistake(
      'LDAP_URL',
      'would send passwords in clear text: use ldaps:// or LDAP_STARTTLS=true, or set LDAP_INSECURE=true to allow it'
    )
}

const checkNames = (reader: Reader, ldap: LdapSettings): void => {
  const isNamed = ldap.domain !== undefined || ldap.userDnTemplate !== undefined || ldap.bindDn !== undefined
  if (ldap.active && !isNamed) {
    reader.mistake('LDAP_DOMAIN', 'or LDAP_USER_DN_TEMPLATE or LDAP_BIND_DN is required when LDAP_ENABLED is true')
  }
  checkTemplate(reader, 'LDAP_USER_DN_TEMPLATE', ldap.userDnTemplate, ['username'])
  const template = ldap.userDnTemplate?.replaceAll('{{username}}', 'x') ?? ''
  if (BEGINS_AS_DN.test(template) && parseDn(template) === undefined)
    reader.mistake('LDAP_USER_DN_TEMPLATE', 'begins like a DN but is none (RFC 4514)')
}

const BEGINS_AS_DN = /^\s*[A-Za-z0-9.-]+\s*=/

const checkServiceAccount = (reader: Reader, { bindDn, userDnTemplate }: LdapSettings, warnings: string[]): void => {
  requires(reader, 'LDAP_BIND_PASSWORD', 'LDAP_BIND_DN')
  // A bind with a name and an empty password succeeds for any name (RFC 4513 §5.1.2).
  requires(reader, 'LDAP_BIND_DN', 'LDAP_BIND_PASSWORD', 'LDAP_SEARCH_BASE', 'LDAP_SEARCH_FILTER')
  if (bindDn === undefined) return
  // LDAP libraries read these as a SASL bind.
  if (/^(?:EXTERNAL|PLAIN|DIGEST-MD5|SCRAM-SHA-1)$/i.test(bindDn)) reader.mistake('LDAP_BIND_DN', 'must be a DN')
  if (userDnTemplate !== undefined) warnings.push('LDAP_USER_DN_TEMPLATE is ignored because LDAP_BIND_DN is set')
}

/** A setting that is set requires these others. */
const requires = (reader: Reader, name: VariableName, ...others: VariableName[]): void => {
  if (reader.text(name) === undefined) return
  for (const other of others) if (reader.text(other) === undefined) reader.mistake(other, `is required with ${name}`)
}

const checkGroups = (reader: Reader, { groupBase, groupFilter }: LdapSettings): void => {
  checkBase(reader, 'LDAP_GROUP_BASE', groupBase)
  requires(reader, 'LDAP_GROUP_FILTER', 'LDAP_GROUP_BASE')
  if (groupFilter === undefined) return
  checkTemplate(reader, 'LDAP_GROUP_FILTER', groupFilter, ['dn', 'username'])
  checkFilter(reader, 'LDAP_GROUP_FILTER', groupFilter, '(member={{dn}})')
}

/**
 * Active Directory knows an account by two names. Before its first login the gateway cannot know that they belong together,
 * so each gets half of the failures that are safe, which must be at least one.
 */
const checkLockout = (reader: Reader, ldap: LdapSettings): void => {
  if (ldap.lockoutWindowMs > 0 && ldap.lockoutWindowMs < 1000)
    reader.mistake('LDAP_LOCKOUT_WINDOW', 'must be at least 1s, or 0 if the directory never forgets failures')
  if (!ldap.active || ldap.lockoutThreshold >= 3 || !mayHaveTwoNames(ldap)) return
  reader.mistake(
    'LDAP_LOCKOUT_THRESHOLD',
    'must be at least 3 if an account may have two names: set LDAP_BIND_DN, or an LDAP_USER_DN_TEMPLATE that is a DN'
  )
}

/** Whether two names could be bound for one account, which the gateway cannot know before the first login. */
export const mayHaveTwoNames = ({ bindDn, userDnTemplate }: LdapSettings): boolean => {
  if (bindDn !== undefined) return false
  const template = userDnTemplate ?? '{{username}}@'
  const isDn = BEGINS_AS_DN.test(template)
  const isDownLevelName = /^[^@\\]+\\\{\{username\}\}$/.test(template)
  return !isDn && !isDownLevelName
}

const checkSearch = (reader: Reader, { bindDn, searchBase, searchFilter }: LdapSettings): void => {
  checkBase(reader, 'LDAP_SEARCH_BASE', searchBase)
  if (bindDn === undefined) requires(reader, 'LDAP_SEARCH_BASE', 'LDAP_SEARCH_FILTER')
  requires(reader, 'LDAP_SEARCH_FILTER', 'LDAP_SEARCH_BASE')
  if (searchFilter === undefined) return
  checkTemplate(reader, 'LDAP_SEARCH_FILTER', searchFilter, ['username'])
  checkFilter(reader, 'LDAP_SEARCH_FILTER', searchFilter, '(uid={{username}})')
}

type TemplateName = 'LDAP_USER_DN_TEMPLATE' | 'LDAP_SEARCH_FILTER' | 'LDAP_GROUP_FILTER'

/** At least one of `names` must be in it, and no other name. */
const checkTemplate = (reader: Reader, name: TemplateName, text: string | undefined, names: readonly string[]) => {
  if (text === undefined) return
  const found = [...text.matchAll(/\{\{(.*?)\}\}/g)].map(([, inner = '']) => inner)
  const wanted = names.map(inner => `{{${inner}}}`).join(' or ')
  if (!found.some(inner => names.includes(inner))) reader.mistake(name, `must contain ${wanted}`)
  else if (found.some(inner => !names.includes(inner)))
    reader.mistake(name, `must not contain placeholders other than ${wanted}`)
}

const checkFilter = (reader: Reader, name: TemplateName, filter: string, example: string): void => {
  if (parseLdapFilter(filter) === undefined)
    reader.mistake(name, `must be one filter in parentheses (RFC 4515), e.g. ${example}; \\ is written \\5c`)
}

const checkBase = (reader: Reader, name: 'LDAP_SEARCH_BASE' | 'LDAP_GROUP_BASE', base: string | undefined): void => {
  if (base !== undefined && parseDn(base) === undefined)
    reader.mistake(name, 'must be a DN (RFC 4514), e.g. ou=people,dc=corp,dc=example')
}
