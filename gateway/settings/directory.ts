// The directory's settings hold together: what is switched on is complete, verified and encrypted, or said not to be.
import { readFileSync } from 'node:fs'
import { isLoopbackHost } from '../values/addresses.ts'
import { readCertificateBundle } from '../values/certificates.ts'
import { MAX_TIMER_MS } from '../values/quantities.ts'
import type { Reader } from './reader.ts'
import type { LdapSettings } from './settings.ts'
import { judgeUrl } from './urls.ts'

export const readLdap = (reader: Reader, isListed: boolean, warnings: string[]): LdapSettings => {
  const active = reader.boolean('LDAP_ENABLED') && isListed
  const startTls = reader.boolean('LDAP_STARTTLS')
  const insecure = reader.boolean('LDAP_INSECURE')
  const ldap: LdapSettings = {
    active,
    url: reader.text('LDAP_URL') ?? '',
    domain: reader.text('LDAP_DOMAIN'),
    userDnTemplate: reader.text('LDAP_USER_DN_TEMPLATE'),
    searchBase: reader.text('LDAP_SEARCH_BASE'),
    searchFilter: reader.text('LDAP_SEARCH_FILTER'),
    timeoutMs: reader.duration('LDAP_TIMEOUT_MS'),
    ca: readCa(reader),
    startTls,
    insecure,
    lockoutThreshold: reader.integer('LDAP_LOCKOUT_THRESHOLD', { min: 2, max: 10_000 }),
    lockoutWindowMs: reader.duration('LDAP_LOCKOUT_WINDOW', { min: 1000, max: MAX_TIMER_MS })
  }
  judgeAddress(reader, ldap, warnings)
  judgeNames(reader, ldap)
  judgeSearch(reader, ldap)
  return ldap
}

const judgeAddress = (reader: Reader, ldap: LdapSettings, warnings: string[]): void => {
  if (ldap.url === '') {
    if (ldap.active) reader.mistake('LDAP_URL', 'is needed when LDAP_ENABLED is true')
    return
  }
  const url = judgeUrl(reader, 'LDAP_URL', ldap.url, { schemes: ['ldaps:', 'ldap:'], path: false })
  if (url === undefined) return
  if (url.protocol === 'ldaps:' && ldap.startTls) {
    reader.mistake('LDAP_STARTTLS', 'goes with ldap:// only; ldaps:// is encrypted from the start')
  }
  const isPlain = url.protocol === 'ldap:' && !ldap.startTls
  if (isPlain && ldap.ca !== undefined) reader.mistake('LDAP_CA_FILE', 'has no use without ldaps:// or LDAP_STARTTLS')
  if (!ldap.active || !isPlain || isLoopbackHost(url.hostname)) return
  if (ldap.insecure) warnings.push('Passwords travel to the directory in clear text (LDAP_INSECURE)')
  else
    reader.mistake(
      'LDAP_URL',
      'sends passwords in clear text: use ldaps:// or LDAP_STARTTLS=true, or say LDAP_INSECURE=true'
    )
}

const judgeNames = (reader: Reader, ldap: LdapSettings): void => {
  if (ldap.active && ldap.domain === undefined && ldap.userDnTemplate === undefined) {
    reader.mistake('LDAP_DOMAIN', 'or LDAP_USER_DN_TEMPLATE is needed when LDAP_ENABLED is true')
  }
  if (ldap.domain !== undefined && !/^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?$/.test(ldap.domain)) {
    reader.mistake('LDAP_DOMAIN', 'must be a domain name, e.g. corp.example')
  }
  judgeTemplate(reader, 'LDAP_USER_DN_TEMPLATE', ldap.userDnTemplate)
}

const judgeSearch = (reader: Reader, { searchBase, searchFilter }: LdapSettings): void => {
  if (searchBase !== undefined && searchFilter === undefined)
    reader.mistake('LDAP_SEARCH_FILTER', 'is needed with LDAP_SEARCH_BASE')
  if (searchBase === undefined && searchFilter !== undefined)
    reader.mistake('LDAP_SEARCH_BASE', 'is needed with LDAP_SEARCH_FILTER')
  judgeTemplate(reader, 'LDAP_SEARCH_FILTER', searchFilter)
  if (searchFilter !== undefined && !isBalanced(searchFilter)) {
    reader.mistake('LDAP_SEARCH_FILTER', 'must be one filter in parentheses (RFC 4515), e.g. (uid={{username}})')
  }
}

const judgeTemplate = (
  reader: Reader,
  name: 'LDAP_USER_DN_TEMPLATE' | 'LDAP_SEARCH_FILTER',
  text: string | undefined
): void => {
  if (text === undefined) return
  const names = [...text.matchAll(/\{\{(.*?)\}\}/g)].map(([, inner]) => inner)
  if (!names.includes('username')) reader.mistake(name, 'must contain {{username}}')
  else if (names.some(inner => inner !== 'username')) reader.mistake(name, 'knows no other {{…}} than {{username}}')
}

// Within values parentheses are escaped (RFC 4515 §3), so counting is enough to find a filter cut short.
const isBalanced = (filter: string): boolean => {
  let depth = 0
  for (let index = 0; index < filter.length; index++) {
    if (filter[index] === '(') depth++
    if (filter[index] === ')') depth--
    if (depth < 0 || (depth === 0 && index < filter.length - 1)) return false
  }
  return depth === 0 && filter.length > 2
}

const readCa = (reader: Reader): string | undefined => {
  const file = reader.text('LDAP_CA_FILE')
  if (file === undefined) return undefined
  const text = readText(file)
  if (text === undefined) reader.mistake('LDAP_CA_FILE', 'cannot be read')
  else if (readCertificateBundle(text) === undefined || /PRIVATE KEY-----/.test(text))
    reader.mistake('LDAP_CA_FILE', 'must hold certificates in PEM form, and no private key')
  return text
}

const readText = (file: string): string | undefined => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
