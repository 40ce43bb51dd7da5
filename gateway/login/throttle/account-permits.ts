// Takes the permits of an account, whatever name was typed, and merges those of its names.
import { hash } from 'node:crypto'
import type { DirectoryCount, GuardedAccount } from '../../directory/account.ts'
import type { DirectoryPerson } from '../../directory/person.ts'
import { mayHaveTwoNames as maybeTwoNames } from '../../settings/directory.ts'
import type { LdapSettings } from '../../settings/settings.ts'
import type { LoginNames } from '../../store/login-names.ts'
import type { PermitOutcome } from './permits.ts'
import type { SharedLog } from './shared-permits.ts'
import type { Turnstile } from './turnstile.ts'

type Settle = (outcome: PermitOutcome) => Promise<void>

/** Not keyed: after a change of JWT_SECRET the same accounts must still be found. */
export const accountKey = (login: string): string => hash('sha256', `login\0${login}`, 'base64url')

/**
 * Active Directory binds `maria@corp.example` for the sAMAccountName and for the userPrincipalName alike. Until a login
 * has shown whose a name is, each name has half of the permits of an account: two names together lock no account.
 */
export const takePermit = async (
  turnstile: Turnstile,
  names: Pick<LoginNames, 'accountOf'>,
  { name, mayHaveTwoNames, count }: GuardedAccount,
  entry: { readonly known: boolean; readonly deadline: number; readonly half: number; readonly clock: () => number }
): Promise<Settle> => {
  const { known, deadline, half, clock } = entry
  const at = (read: DirectoryCount) => ({ ...read, readAt: clock() - (performance.now() - read.readAt) })
  const enter = (login: string, most?: number) =>
    turnstile.enter({
      key: accountKey(login),
      known,
      deadline,
      most,
      ...(count === undefined ? {} : { count: at(count) })
    })
  if (!mayHaveTwoNames) return enter(name)
  const account = await names.accountOf(name)
  if (account !== undefined) return enter(account)
  const settle = await enter(name, half)
  // A login that ended meanwhile may have shown whose name it is.
  const joined = await names.accountOf(name)
  if (joined === undefined || joined === name) return settle
  await settle('returned')
  return enter(joined)
}

/** After a success: its names are one account's, and so are the permits that were used under them. */
export const joinNames = async (
  turnstile: Turnstile,
  {
    names,
    ldap,
    log
  }: { readonly names: Pick<LoginNames, 'join'>; readonly ldap: LdapSettings; readonly log: SharedLog },
  person: DirectoryPerson
): Promise<void> => {
  const logins = person.names ?? []
  if (logins.length === 0) return
  try {
    const added = await names.join(person.username, logins)
    if (!maybeTwoNames(ldap)) return
    for (const login of added.filter(added => added !== person.username))
      await turnstile.merge(accountKey(login), accountKey(person.username))
  } catch (error) {
    log.warn({ err: error, reason: 'login-names-unjoined' }, 'the names of an account could not be joined')
  }
}
