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

/** Not keyed: the same accounts must be found after a change of JWT_SECRET. */
export const accountKey = (login: string): string => hash('sha256', `login\0${login}`, 'base64url')

/**
 * Active Directory binds `maria@corp.example` both as sAMAccountName and as userPrincipalName. Until a login has shown
 * which account a name belongs to, each name gets half of an account's permits, so that two names together cannot lock it.
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
  // A login that ended in the meantime may have shown which account the name belongs to.
  const joined = await names.accountOf(name)
  if (joined === undefined || joined === name) return settle
  await settle('returned')
  return enter(joined)
}

/** After a success: its names belong to one account, and so do the permits that were used under them. */
export const joinNames = async (
  turnstile: Turnstile,
  {
    names,
    ldap,
    log
  }: { readonly names: Pick<LoginNames, 'join'>; readonly ldap: LdapSettings; readonly log: SharedLog },
  person: DirectoryPerson
): Promise<void> => {
  if (person.names === undefined) return
  try {
    const added = await names.join(person)
    if (!maybeTwoNames(ldap)) return
    for (const login of added.filter(added => added !== person.username))
      await turnstile.merge(accountKey(login), accountKey(person.username))
  } catch (error) {
    log.warn({ err: error, reason: 'login-names-unjoined' }, 'the names of an account could not be joined')
  }
}
