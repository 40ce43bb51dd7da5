// Lists every migration, in the order in which they run.
import { FirstSchema } from './0001-first-schema.ts'
import { LoginPermits } from './0002-login-permits.ts'
import { LoginNames } from './0003-login-names.ts'
import { DirectoryAccounts } from './0004-directory-accounts.ts'
import { GrantedAccess } from './0005-granted-access.ts'
import { ProviderSessions } from './0006-provider-sessions.ts'
import { Sessions } from './0007-sessions.ts'
import { Clients } from './0008-clients.ts'
import { PersonalTokens } from './0009-personal-tokens.ts'
import { SigningKeys } from './0010-signing-keys.ts'
import { SearchedPeople } from './0011-searched-people.ts'
import { R2ProvenNames } from './0012-proven-names.ts'
import { R2GrantsInForce } from './0013-grants-in-force.ts'
import { R2LoginAttempts } from './0014-login-attempts.ts'
import { R2EndedProviderSessions } from './0015-ended-provider-sessions.ts'
import { R2UncheckedGrants } from './0016-unchecked-grants.ts'
import { R2KeyedAudit } from './0017-keyed-audit.ts'
import { R2ListedPeople } from './0018-listed-people.ts'
import { R2LostPeople } from './0019-lost-people.ts'
import { R2LinkedAtOnce } from './0020-linked-at-once.ts'
import { R2AccountSubjects } from './0021-account-subjects.ts'

/**
 * Incremented with the first migration of each release that has any. From 2 on, the names of migrations begin with it, as
 * in `R2Something1770000000000`, so that an older gateway can see how far ahead a database is. Migrations are additive: the
 * previous release must work on the resulting schema.
 */
export const SCHEMA_RELEASE = 2

export const migrations = [
  FirstSchema,
  LoginPermits,
  LoginNames,
  DirectoryAccounts,
  GrantedAccess,
  ProviderSessions,
  Sessions,
  Clients,
  PersonalTokens,
  SigningKeys,
  SearchedPeople,
  R2ProvenNames,
  R2GrantsInForce,
  R2LoginAttempts,
  R2EndedProviderSessions,
  R2UncheckedGrants,
  R2KeyedAudit,
  R2ListedPeople,
  R2LostPeople,
  R2LinkedAtOnce,
  R2AccountSubjects
]
