// Turns the LDAP settings into what each login needs: a bind name and, if people are searched for, a filter.
import { mayHaveTwoNames } from '../settings/directory.ts'
import type { LdapSettings } from '../settings/settings.ts'
import { parseDn } from '../values/ldap-text.ts'
import { comparesWholeValues } from './account-names.ts'
import { escapeDnValue, escapeFilterValue, fillPlaceholders } from './names.ts'

const GROUP_FILTER = '(|(member={{dn}})(uniqueMember={{dn}})(memberUid={{username}}))'

/** How a login is bound and how its entry is found. */
export type DirectoryPlan = ReturnType<typeof planOf>

/** @throws Error if no one could be bound. */
export const planOf = (settings: LdapSettings) => {
  const { domain, userDnTemplate, bindDn, bindPassword = '', searchBase, groupBase } = settings
  const template = userDnTemplate ?? (domain === undefined ? undefined : `{{username}}@${domain}`)
  if (template === undefined && bindDn === undefined)
    throw new Error('LDAP_USER_DN_TEMPLATE, LDAP_DOMAIN or LDAP_BIND_DN is required')
  const bindTemplate = template ?? ''
  const rdns = parseDn(fillPlaceholders(bindTemplate, { username: 'x' }, escapeDnValue)) ?? []
  const bindsByDn = rdns.length > 0
  const quote = bindsByDn ? escapeDnValue : (value: string) => value
  const searchTemplate = settings.searchFilter ?? (bindsByDn ? '(uid={{username}})' : '(sAMAccountName={{username}})')
  const fillSearch = filterOf(searchTemplate)
  const fillGroups = filterOf(settings.groupFilter ?? GROUP_FILTER)
  return {
    settings,
    /** If set, people are searched for first, then bound by the DN that was found. */
    service: bindDn === undefined ? undefined : { dn: bindDn, password: bindPassword },
    /** A login may contain any character, because it is escaped. */
    takesAnyLogin: bindsByDn || bindDn !== undefined,
    /** The bind name is a DN, so that it can be compared. */
    bindsByDn: bindsByDn && bindDn === undefined,
    /** The bind name may be a DN of Active Directory, which names no person by `uid`. */
    mayIgnoreAccents: bindsByDn && rdns[0]?.some(value => value.startsWith('uid=')) !== true,
    /** Two names may be bound for one account, and only a login shows which ones. */
    mayHaveTwoNames: mayHaveTwoNames(settings),
    /** If there is no service account. */
    bindName: (username: string) => fillPlaceholders(bindTemplate, { username }, quote),
    search:
      searchBase === undefined
        ? undefined
        : {
            base: searchBase,
            filter: (username: string) => fillSearch({ username }),
            /** A login is inserted as whole values only, so that what finds an entry is a name of that entry. */
            comparesWholeValues: comparesWholeValues(searchTemplate)
          },
    /** Where and how to search for groups, for directories that do not list them in the person's entry. */
    groups:
      groupBase === undefined
        ? undefined
        : { base: groupBase, filter: (dn: string, username: string) => fillGroups({ dn, username }) }
  }
}

const filterOf =
  (template: string) =>
  (values: Readonly<Record<string, string>>): string =>
    fillPlaceholders(template, values, escapeFilterValue)
