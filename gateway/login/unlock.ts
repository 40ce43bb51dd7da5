// Returns all permits of the login throttle to a person, under every name of their account.
import { type Actor, appendAudit } from '../store/audit-entry.ts'
import type { Database } from '../store/database.ts'
import { loginsOfPerson } from '../store/login-names.ts'
import { releasePermits } from '../store/login-permits.ts'
import { getPerson } from '../store/people.ts'
import { accountKey } from './throttle/account-permits.ts'

/** The logins that were released. Throws NotFound. */
export const unlockPerson = (database: Database, actor: Actor, id: number): Promise<readonly string[]> =>
  database.write(async manager => {
    const { user } = await getPerson(manager, id)
    const logins = await loginsOfPerson(manager, id, user.username)
    await releasePermits(manager, logins.map(accountKey))
    await appendAudit(manager, { actor, action: 'person.unlock', target: `user:${id}` })
    return logins
  })
