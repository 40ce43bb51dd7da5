// Reads from the directory what contradicts the settings: bases that do not exist, failures that are never forgotten.
import { DirectoryFailure } from './failure.ts'
import type { LdapConnection } from './ldap-connection.ts'
import { allTexts, type DirectoryEntry, firstText } from './person.ts'
import type { DirectoryPlan } from './plan.ts'

type BaseSetting = 'LDAP_SEARCH_BASE' | 'LDAP_GROUP_BASE'

export const missingBases = async (
  { search, groups }: DirectoryPlan,
  connection: LdapConnection
): Promise<readonly BaseSetting[]> => {
  const bases = [
    ['LDAP_SEARCH_BASE', search?.base],
    ['LDAP_GROUP_BASE', groups?.base]
  ] as const
  const missing: BaseSetting[] = []
  for (const [setting, base] of bases)
    if (base !== undefined && !(await exists(connection, base))) missing.push(setting)
  return missing
}

const exists = async (connection: LdapConnection, base: string): Promise<boolean> => {
  try {
    await connection.search(base, { scope: 'base', attributes: ['1.1'] })
    return true
  } catch (error) {
    if (error instanceof DirectoryFailure && error.reason === 'no-entry') return false
    throw error
  }
}

const MOST_POLICIES = 100

const locksForGood = (policy: DirectoryEntry): boolean =>
  Number(firstText(policy, 'pwdMaxFailure')) > 0 && Number(firstText(policy, 'pwdFailureCountInterval')) === 0

/** Whether some policy locks accounts out and keeps failures for good (draft-behera-ldap-password-policy-11 §5.2.11). */
export const neverForgets = async (connection: LdapConnection): Promise<boolean> => {
  const { entries } = await connection.search('', { scope: 'base', attributes: ['namingContexts'] })
  const contexts = entries[0] === undefined ? [] : allTexts(entries[0], 'namingContexts')
  for (const context of contexts) {
    const policies = await connection.search(context, {
      filter: '(&(objectClass=pwdPolicy)(pwdLockout=TRUE))',
      attributes: ['pwdFailureCountInterval', 'pwdMaxFailure'],
      most: MOST_POLICIES
    })
    if (policies.entries.some(locksForGood)) return true
  }
  return false
}
