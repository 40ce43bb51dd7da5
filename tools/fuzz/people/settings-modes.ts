// Lists the ways in which a directory may be configured, and finds the entry of a typed name by PRODUCT's rules alone.
import { FilterParser } from 'ldapts'
import type { LdapSettings } from '../../../gateway/settings/settings.ts'
import { settingsFor } from '../../../test/support/openldap.ts'
import {
  BASE,
  DOMAIN,
  dnOf,
  type Kind,
  type ModelDirectory,
  type ModelEntry,
  SERVICE,
  THRESHOLD,
  WINDOW_MS
} from './model-directory.ts'

type NameAttribute = 'login' | 'mail' | 'principal' | 'alias'

export interface Mode {
  readonly name: string
  readonly kind: Kind
  readonly bindsFirst: boolean
  /** No entry is read: the login is the identity. */
  readonly isBlind: boolean
  readonly domain: string | undefined
  readonly template: string | undefined
  /** The attributes that are searched; empty: no search. */
  readonly searched: readonly NameAttribute[]
  /** The login is inserted into an address: `(mail={{username}}@corp.example)`. */
  readonly hasPiece: boolean
}

const SEARCHES: readonly (readonly NameAttribute[])[] = [
  ['login'],
  ['login', 'mail'],
  ['login', 'mail', 'alias'],
  ['login', 'principal'],
  ['login', 'principal', 'mail', 'alias']
]

export const modesOf = ({ kind, hidesUuid }: Pick<ModelDirectory, 'kind' | 'hidesUuid'>): readonly Mode[] => {
  const searches = SEARCHES.filter(searched => kind === 'ad' || !searched.includes('principal'))
  const service = searches.flatMap(searched =>
    [undefined, DOMAIN].flatMap(domain =>
      [false, true].map(hasPiece => ({
        name: `service ${searched.join('|')} ${domain ?? ''}${hasPiece ? ' piece' : ''}`,
        kind,
        bindsFirst: false,
        isBlind: false,
        domain,
        template: undefined,
        searched,
        hasPiece
      }))
    )
  )
  const template = kind === 'openldap' ? `uid={{username}},ou=people,${BASE}` : undefined
  const first = [[], ...searches].map(searched => ({
    name: `bind first ${searched.join('|')}`,
    kind,
    bindsFirst: true,
    isBlind: kind === 'openldap' && searched.length === 0,
    domain: DOMAIN,
    template,
    searched,
    hasPiece: false
  }))
  // Where no entry is read either, nothing at all tells people apart who share a login.
  return [...service, ...first.filter(({ isBlind }) => !(isBlind && hidesUuid))]
}

const ATTRIBUTES: Readonly<Record<Kind, Readonly<Record<NameAttribute, string>>>> = {
  openldap: { login: 'uid', mail: 'mail', principal: 'userPrincipalName', alias: 'employeeNumber' },
  ad: { login: 'sAMAccountName', mail: 'mail', principal: 'userPrincipalName', alias: 'employeeNumber' }
}

const filterOf = ({ kind, searched, hasPiece }: Mode): string => {
  const parts = searched.map(attribute => `(${ATTRIBUTES[kind][attribute]}={{username}})`)
  if (hasPiece) parts.push(`(mail={{username}}@${DOMAIN})`)
  return `(|${parts.join('')})`
}

export const settingsOf = (mode: Mode, url: string): LdapSettings => {
  const filter = mode.searched.length === 0 ? undefined : filterOf(mode)
  if (filter !== undefined) FilterParser.parseString(filter.replaceAll('{{username}}', 'x'))
  return settingsFor(url, {
    domain: mode.domain,
    userDnTemplate: mode.template,
    bindDn: mode.bindsFirst ? undefined : SERVICE.dn,
    bindPassword: mode.bindsFirst ? undefined : SERVICE.password,
    searchBase: filter === undefined ? undefined : BASE,
    searchFilter: filter,
    lockoutThreshold: THRESHOLD,
    lockoutWindowMs: WINDOW_MS
  })
}

/** The entry that a typed name leads to; undefined: to none, or to more than one. */
export const resolve = (mode: Mode, model: ModelDirectory, username: string): { entry: ModelEntry } | undefined => {
  const full = username.trim().toLowerCase()
  const login = shortOf(full, mode)
  if (login === undefined) return undefined
  if (mode.bindsFirst) return resolveBind(mode, model, login)
  const byFull = matching(mode, model, full)
  const found = byFull.length > 0 || full === login ? byFull : matching(mode, model, login)
  const [entry] = found
  return entry !== undefined && found.length === 1 ? { entry } : undefined
}

/** Without the domain, if it is ours; undefined: refused. */
const shortOf = (full: string, { domain, bindsFirst }: Mode): string | undefined => {
  const [label = '', rest] = full.split('\\')
  if (domain === undefined) return full
  if (rest !== undefined) return label === 'corp' ? rest : undefined
  const at = full.lastIndexOf('@')
  if (at === -1) return full
  if (full.slice(at + 1) === domain) return full.slice(0, at)
  return bindsFirst ? undefined : full
}

const matching = (mode: Mode, { entries }: ModelDirectory, text: string): ModelEntry[] =>
  entries.filter(
    entry =>
      mode.searched.some(attribute => entry[attribute] === text) ||
      (mode.hasPiece && entry.mail === `${text}@${DOMAIN}`)
  )

const resolveBind = (mode: Mode, model: ModelDirectory, login: string): { entry: ModelEntry } | undefined => {
  // A template that is no DN takes plain logins only.
  if (mode.kind === 'ad' && !/^[a-z0-9._-]+$/.test(login)) return undefined
  const bound =
    mode.kind === 'openldap'
      ? model.entries.find(entry => dnOf('openldap', entry) === `uid=${login},ou=people,${BASE}`)
      : (model.entries.find(({ principal }) => principal === `${login}@${DOMAIN}`) ??
        model.entries.find(entry => entry.login === login))
  if (bound === undefined) return undefined
  if (mode.searched.length === 0) return { entry: bound }
  const found = matching(mode, model, login)
  return found.length === 1 && found[0] === bound ? { entry: bound } : undefined
}
