// The LDAP settings have become what each login needs: a bind name and, where people are looked up, a filter.

import { parseDn } from '../routes/distinguished-names.ts'
import type { LdapSettings } from '../settings/settings.ts'
import { escapeDnValue, escapeFilterValue, fillTemplate } from './names.ts'

/** How a login is bound and looked up. */
export interface DirectoryPlan {
  readonly settings: LdapSettings
  readonly bindName: (login: string) => string
  /** The bind name is a DN, so that it can be compared and logins may hold any character. */
  readonly bindsByDn: boolean
  readonly search: { readonly base: string; readonly filter: (login: string) => string } | undefined
}

/** @throws Error when there is neither a template nor a domain, or the filter's parentheses do not match. */
export const planOf = (settings: LdapSettings): DirectoryPlan => {
  const { domain, userDnTemplate, searchBase, searchFilter } = settings
  const template = userDnTemplate ?? (domain === undefined ? undefined : `{{username}}@${domain}`)
  if (template === undefined) throw new Error('LDAP_USER_DN_TEMPLATE or LDAP_DOMAIN is needed')
  const bindsByDn = (parseDn(fillTemplate(template, 'x', escapeDnValue)) ?? []).length > 0
  const filter = searchFilter ?? (bindsByDn ? '(uid={{username}})' : '(sAMAccountName={{username}})')
  return {
    settings,
    bindsByDn,
    bindName: login => fillTemplate(template, login, bindsByDn ? escapeDnValue : value => value),
    search: searchBase === undefined ? undefined : { base: searchBase, filter: filterOf(filter) }
  }
}

const filterOf = (template: string): ((login: string) => string) => {
  // ldapts reads `\c3\a9` as two characters; an operator's escaped UTF-8 is therefore written out first.
  const decoded = template.replace(/(?:\\[89a-f][0-9a-f])+/gi, escaped =>
    Buffer.from(escaped.replaceAll('\\', ''), 'hex').toString('utf8')
  )
  if (!isBalanced(decoded)) throw new Error('LDAP_SEARCH_FILTER is no filter: its parentheses do not match')
  return login => fillTemplate(decoded, login, escapeFilterValue)
}

/** ldapts would take `(&(uid=x)` for complete. In values parentheses are escaped (RFC 4515 §3), so that all count. */
const isBalanced = (filter: string): boolean => {
  let depth = 0
  for (const [parenthesis] of filter.matchAll(/[()]/g)) {
    depth += parenthesis === '(' ? 1 : -1
    if (depth < 0) return false
  }
  return depth === 0
}
