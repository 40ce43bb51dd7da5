// Describes a person as the public API shows them, and the claims of a verified token.

export type Provider = 'ldap' | 'cloudidp'
/** The owner of an account: a person of a login provider, or a service account. */
export type AccountProvider = Provider | 'client'
export type AccessStatus = 'assigned' | 'unassigned'

/** The user object of the public API (`/auth/login`, `/auth/me`, …). Absent strings are `''`, never null. */
export interface User {
  id: number
  name: string
  email: string
  username: string
  provider: AccountProvider
  perfis: string[]
  profiles: string[]
  areas: string[]
  areaPrincipal: string
  accessStatus: AccessStatus
}

/** The person that a provider has authenticated. `subject` is stable for one person at one issuer; an e-mail never is. */
export interface ProvenPerson {
  provider: Provider
  issuer: string
  subject: string
  name: string
  email: string
  username: string
  /** Names of the person's groups at the provider: DNs from a directory. undefined: unknown. */
  groups?: readonly string[] | undefined
  /** `tid` of an ID token. */
  tenant?: string | undefined
  /** The provider truncated the list of groups, so nothing is granted. */
  groupsCutOff?: boolean | undefined
  /** The login attributes of the account's own entry: under other settings each could be its subject. */
  names?: readonly string[] | undefined
  /** Other accounts of the directory have the same username, so that it names none of them. */
  isUsernameShared?: boolean | undefined
  /** The groups could not be read this time. */
  groupsUnreadable?: Error | undefined
  /** When the entry was created in the directory. */
  entryCreatedAt?: Date | undefined
  /** The value inserted into the directory's filter, for looking the account up again. */
  login?: string | undefined
  /** `sid` of an ID token: the session at the provider (OpenID Connect Back-Channel Logout 1.0 §2.1). */
  providerSession?: string | undefined
  /** `iat` of an ID token, in seconds since the epoch: whether a logout at the provider came before or after. */
  idTokenIssuedAt?: number | undefined
  /** How the same account is linked without CLOUDIDP_ISSUER: by the Graph `id`, which its validated ID token contains. */
  linkWithoutIssuer?: { readonly issuer: string; readonly subject: string } | undefined
}

/** What shows whose account of the directory a failed login was for. */
export type AccountClue =
  /** Its entry was read before the bind. `createdAt`: when it was created; undefined if that cannot be read. */
  | { readonly subject: string; readonly names: readonly string[]; readonly createdAt: Date | undefined }
  /** This name was bound, and no entry read. */
  | { readonly bound: string }

/** What was presented: the login token of a person, the token of a service account, or a person's access token. */
export type TokenKind = 'login' | 'client' | 'personal'

/** The contents of a verified token: its person, id and lifetime. Times are seconds since the epoch (RFC 7519 §2). */
export interface Identity {
  readonly user: User
  /** `sub`: the user's id as a string. */
  readonly subject: string
  /** `jti`: shared by every refreshed copy of one login. */
  readonly tokenId: string
  /** `ver`: the person's access version when the token was issued. */
  readonly version: number
  readonly issuedAt: number
  readonly expiresAt: number
  /** `auth_time`: when the person logged in; 0 if the token does not say. */
  readonly authenticatedAt: number
  readonly kind: TokenKind
  /** For a person's access token: the profiles named when it was created; the person's other profiles do not count. */
  readonly profilesAtMost?: readonly string[] | undefined
  /** Where the token may be used from, as CIDR blocks; undefined: anywhere. */
  readonly addresses?: readonly string[] | undefined
  /** The named host whose session cookie holds the token: it is accepted from that cookie only. */
  readonly host?: string | undefined
}

/** What renews a login: who it belongs to, whatever their access. */
export type LiveLogin = Omit<Identity, 'user'> & { readonly user: Pick<User, 'id' | 'provider' | 'username'> }

/** Clocks of gateways and databases differ by less. */
const CLOCKS_DIFFER_S = 60 * 60

/**
 * Whether a login is that of this person. The id alone is no proof: after a fail-over or from a restored backup it may have
 * been given to somebody else. Names may have changed since the login of a person who was there before it.
 */
export const isLoginOf = (
  { user: { provider, username }, issuedAt, authenticatedAt }: LiveLogin,
  { user, createdAt }: { readonly user: User; readonly createdAt: Date }
): boolean => {
  const loggedInAt = authenticatedAt === 0 ? issuedAt : authenticatedAt
  const isNamedSo = provider === user.provider && username === user.username
  return isNamedSo || createdAt.getTime() / 1000 < loggedInAt - CLOCKS_DIFFER_S
}

export const PROFILES = ['Admin', 'Supervisor', 'Agente'] as const

/** The person limited to these profiles; undefined: not limited. */
export const narrowedTo = (user: User, profilesAtMost: readonly string[] | undefined): User => {
  if (profilesAtMost === undefined) return user
  const profiles = user.profiles.filter(profile => profilesAtMost.includes(profile))
  const isAssigned = profiles.length > 0 && user.areas.length > 0
  return { ...user, perfis: profiles, profiles, accessStatus: isAssigned ? 'assigned' : 'unassigned' }
}
