// Turns the LDAP settings into what each login needs: a bind name and, if people are searched for, a filter.
import { mayHaveTwoNames } from '../settings/directory.ts'
import type { LdapSettings } from '../settings/settings.ts'
import { parseDn } from '../values/distinguished-names.ts'
import { comparesWholeValues } from './account-names.ts'
import { escapeDnValue, escapeFilterValue, fillPlaceholders } from './names.ts'

/** How a login is bound and how its entry is found. */
export interface DirectoryPlan {
  readonly settings: LdapSettings
  /** If set, people are searched for first, then bound by the DN that was found. */
  readonly service: { readonly dn: string; readonly password: string } | undefined
  /** If there is no service account. */
  readonly bindName: (login: string) => string
  /** A login may contain any character, because it is escaped. */
  readonly takesAnyLogin: boolean
  /** The bind name is a DN, so that it can be compared. */
  readonly bindsByDn: boolean
  /** Two names may be bound for one account, and only a login shows which ones. */
  readonly mayHaveTwoNames: boolean
  readonly search:
    | {
        readonly base: string
        readonly filter: (login: string) => string
        /** A login is inserted as whole values only, so that what finds an entry is a name of that entry. */
        readonly comparesWholeValues: boolean
      }
    | undefined
  /** Where and how to search for groups, for directories that do not list them in the person's entry. */
  readonly groups: { readonly base: string; readonly filter: (dn: string, username: string) => string } | undefined
}

const GROUP_FILTER = '(|(member={{dn}})(uniqueMember={{dn}})(memberUid={{username}}))'

/** @throws Error if no one could be bound. */
export const planOf = (settings: LdapSettings): DirectoryPlan => {
  const {
    domain,
    userDnTemplate,
    bindDn,
    bindPassword = '',
    searchBase,
    searchFilter,
    groupBase,
    groupFilter
  } = settings
  const template = userDnTemplate ?? (domain === undefined ? undefined : `{{username}}@${domain}`)
  if (template === undefined && bindDn === undefined)
    throw new Error('LDAP_USER_DN_TEMPLATE, LDAP_DOMAIN or LDAP_BIND_DN is required')
  const bindTemplate = template ?? ''
  const bindsByDn = (parseDn(fillPlaceholders(bindTemplate, { username: 'x' }, escapeDnValue)) ?? []).length > 0
  const quote = bindsByDn ? escapeDnValue : (value: string) => value
  const searchTemplate = searchFilter ?? (bindsByDn ? '(uid={{username}})' : '(sAMAccountName={{username}})')
  const filter = filterOf(searchTemplate)
  const groups = filterOf(groupFilter ?? GROUP_FILTER)
  return {
    settings,
    service: bindDn === undefined ? undefined : { dn: bindDn, password: bindPassword },
    takesAnyLogin: bindsByDn || bindDn !== undefined,
    bindsByDn: bindsByDn && bindDn === undefined,
    mayHaveTwoNames: mayHaveTwoNames(settings),
    bindName: username => fillPlaceholders(bindTemplate, { username }, quote),
    search:
      searchBase === undefined
        ? undefined
        : {
            base: searchBase,
            filter: username => filter({ username }),
            comparesWholeValues: comparesWholeValues(searchTemplate)
          },
    groups:
      groupBase === undefined ? undefined : { base: groupBase, filter: (dn, username) => groups({ dn, username }) }
  }
}

const filterOf =
  (template: string) =>
  (values: Readonly<Record<string, string>>): string =>
    fillPlaceholders(template, values, escapeFilterValue)
