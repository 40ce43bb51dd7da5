// Keeps people who they are when their account becomes known by another subject, and moves links by hand.
import type { EntityManager } from 'typeorm'
import { Conflict } from '../errors.ts'
import type { Provider } from '../identity.ts'
import { raiseVersions } from './access-changes.ts'
import { lockAccess } from './access-state.ts'
import { type Actor, type AuditEntry, appendAudit } from './audit-entry.ts'
import type { Database } from './database.ts'
import { getPerson } from './people.ts'
import { query } from './query.ts'

export type Link = [provider: Provider, issuer: string, subject: string]

/** What a provider knows of an account beyond its subject. */
interface AccountHistory {
  /** Subjects under which other settings would have linked this account: its logins. */
  readonly formerSubjects: readonly string[]
  /** When the provider made the account. */
  readonly createdAt: Date
}

/**
 * Makes a link by login name one by the stable subject, if the account existed before the last login of that person: a
 * name that was given to somebody else since leads to nobody. The entry for the audit log, or undefined when there is no
 * such link. Of several people under the names of one account a disabled one goes first: nobody comes back by another
 * name.
 */
export const upgradeLink = async (
  manager: EntityManager,
  [provider, issuer, subject]: Link,
  { formerSubjects, createdAt }: AccountHistory
): Promise<AuditEntry | undefined> => {
  if (formerSubjects.includes(subject)) return undefined
  const found = await query<{ subject: string; id: number }>(manager, FORMER, [
    provider,
    issuer,
    formerSubjects,
    createdAt
  ])
  const [former] = found
  if (former === undefined) return undefined
  await query(manager, MOVE, [provider, issuer, former.subject, subject])
  return {
    actor: { id: null, username: 'links' },
    action: 'person.link',
    target: `user:${former.id}`,
    before: { subject: former.subject },
    after: { subject }
  }
}

const STABLE = "'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"

// Someone who has a stable link already has been told from others by it: a left-over login of theirs proves nothing.
const FORMER = `
  SELECT l.subject, u.id FROM provider_links l JOIN users u ON u.id = l.user_id
  WHERE l.provider = $1 AND l.issuer = $2 AND l.subject = ANY($3::text[]) AND u.last_login_at > $4
    AND NOT EXISTS (
      SELECT FROM provider_links o
      WHERE o.user_id = u.id AND o.provider = $1 AND o.issuer = $2 AND o.subject ~ ${STABLE}
    )
  ORDER BY u.disabled DESC, array_position($3::text[], l.subject) LIMIT 1 FOR UPDATE OF l`
const MOVE = 'UPDATE provider_links SET subject = $4 WHERE provider = $1 AND issuer = $2 AND subject = $3'

/**
 * The links of `newId` lead to `oldId` from now on; access stays where it is. Both must log in again. Throws NotFound, and
 * Conflict when `newId` has access of its own, has no link, or is `oldId`.
 */
export const relinkPerson = (database: Database, actor: Actor, oldId: number, newId: number): Promise<number> =>
  database.write(async manager => {
    await lockAccess(manager)
    await getPerson(manager, oldId)
    const { assigned } = await getPerson(manager, newId)
    if (oldId === newId) throw new Conflict({ reason: 'relink-to-itself' })
    if (assigned.profiles.length > 0 || assigned.areas.length > 0) throw new Conflict({ reason: 'relink-has-access' })
    const moved = await query<{ subject: string }>(
      manager,
      'UPDATE provider_links SET user_id = $1 WHERE user_id = $2 RETURNING subject',
      [oldId, newId]
    )
    if (moved.length === 0) throw new Conflict({ reason: 'relink-without-link' })
    await raiseVersions(manager, [oldId, newId], true)
    await appendAudit(manager, {
      actor,
      action: 'person.relink',
      target: `user:${oldId}`,
      before: { user: newId },
      after: { user: oldId },
      details: { links: moved.length }
    })
    return moved.length
  })

interface DirectoryLinks {
  /** People whose link is their login. */
  readonly byLogin: number
  /** People whose link is a stable subject. */
  readonly bySubject: number
}

export const countDirectoryLinks = (database: Database): Promise<DirectoryLinks> =>
  database.read(async manager => {
    const [row] = await query<DirectoryLinks>(manager, COUNT)
    return row ?? { byLogin: 0, bySubject: 0 }
  })

const COUNT = `
  SELECT count(*) FILTER (WHERE NOT stable)::int AS "byLogin", count(*) FILTER (WHERE stable)::int AS "bySubject"
  FROM (SELECT bool_or(subject ~ ${STABLE}) AS stable FROM provider_links WHERE provider = 'ldap' GROUP BY user_id) AS p`
