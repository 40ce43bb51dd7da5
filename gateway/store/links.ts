// Keeps people's identity when the subject of their account changes, and moves links manually.
import type { EntityManager } from 'typeorm'
import { Conflict } from '../errors.ts'
import type { Provider } from '../identity.ts'
import { raiseVersions } from './access-changes.ts'
import { type Actor, type AuditEntry, appendAudit } from './audit-entry.ts'
import { type Database, readRows, writeAccess } from './database.ts'
import { getPerson } from './people.ts'
import { query } from './query.ts'

export type Link = [provider: Provider, issuer: string, subject: string]

/** What a provider knows about an account beyond its subject. */
interface AccountHistory {
  /** Subjects under which other settings would have linked this account, i.e. its logins. */
  readonly formerSubjects: readonly string[]
  /** When the account was created at the provider. */
  readonly createdAt: Date
}

/**
 * Turns a link by login name into one by the stable subject, if the account existed before the last login by that link:
 * a name that has since been reassigned matches no one. Returns the entry for the audit log, or undefined if there is no
 * such link. If several people have names of one account, a disabled one takes precedence, so that no one returns under
 * another name.
 */
export const upgradeLink = async (
  manager: EntityManager,
  [provider, issuer, subject]: Link,
  { formerSubjects, createdAt }: AccountHistory
): Promise<AuditEntry | undefined> => {
  if (formerSubjects.includes(subject)) return undefined
  const values = [provider, issuer, formerSubjects, createdAt]
  const [former] = await query<{ subject: string; id: number }>(manager, FORMER, values)
  if (former === undefined) return undefined
  await query(manager, MOVE, [provider, issuer, former.subject, subject])
  return linked(former.id, { subject: former.subject }, { subject })
}

/**
 * Sets a link by login name aside if this account was created after the last login by it: the login has been given to
 * somebody else. An hour of tolerance, because clocks differ. Returns the entry for the audit log, or undefined.
 */
export const setAsideFormer = async (
  manager: EntityManager,
  [provider, issuer, subject]: Link,
  createdAt: Date
): Promise<AuditEntry | undefined> => {
  if (isStable(subject)) return undefined
  const aside = `${subject.slice(0, 400)} until ${createdAt.toISOString()}`
  const [former] = await query<{ id: number }>(manager, SET_ASIDE, [provider, issuer, subject, createdAt, aside])
  return former && linked(former.id, { subject }, { subject, until: createdAt })
}

/** The form of a link under other settings. */
interface OtherLink {
  readonly issuer: string
  readonly subject: string
}

/** Adds this link to an account that is linked under other settings. Returns the entry for the audit log, or undefined. */
export const adoptLink = async (
  manager: EntityManager,
  link: Link,
  { issuer, subject }: OtherLink
): Promise<AuditEntry | undefined> => {
  const [found] = await query<{ id: number }>(manager, ADOPT, [...link, issuer, subject])
  if (found === undefined) return undefined
  return linked(found.id, { issuer, subject }, { issuer: link[1], subject: link[2] })
}

interface ShownLink {
  readonly issuer?: string
  readonly subject: string
  readonly until?: Date
}

const linked = (id: number, before: ShownLink, after: ShownLink): AuditEntry => ({
  actor: { id: null, username: 'links' },
  action: 'person.link',
  target: `user:${id}`,
  before: nameless(before),
  after: nameless(after)
})

/** A login names a person, and could not be erased from the audit log. */
const nameless = (link: ShownLink): ShownLink => (isStable(link.subject) ? link : { ...link, subject: 'hidden' })

/** Preserves the person's identity when the settings change; a link that already belongs to a person stays. */
export const keepOtherLink = (manager: EntityManager, id: number, { issuer, subject }: OtherLink) =>
  query(manager, KEEP, [issuer, subject, id])

const ADOPT = `
  INSERT INTO provider_links (provider, issuer, subject, user_id)
  SELECT $1, $2, $3, l.user_id FROM provider_links l WHERE l.provider = $1 AND l.issuer = $4 AND l.subject = $5
  ON CONFLICT DO NOTHING RETURNING user_id AS id`
const KEEP = `
  INSERT INTO provider_links (provider, issuer, subject, user_id) VALUES ('cloudidp', $1, $2, $3)
  ON CONFLICT DO NOTHING`

/**
 * People whose only link is the one without CLOUDIDP_ISSUER, and those whose only link is an issuer's subject.
 * @param source the issuer of links that are created without CLOUDIDP_ISSUER
 */
export const countCloudLinks = async (database: Database, source: string) => {
  const [row] = await readRows<{ withoutIssuer: number; withIssuer: number }>(database, COUNT_CLOUD, [source])
  return row ?? { withoutIssuer: 0, withIssuer: 0 }
}

/** People whose links are all those of issuers that `isKnown` does not accept. */
export const countOtherIssuers = async (database: Database, isKnown: (issuer: string) => boolean): Promise<number> => {
  const issuers = await readRows<{ issuer: string }>(database, ISSUERS)
  const known = issuers.map(({ issuer }) => issuer).filter(isKnown)
  const [row] = await readRows<{ people: number }>(database, COUNT_OTHERS, [known])
  return row?.people ?? 0
}

const ISSUERS = "SELECT DISTINCT issuer FROM provider_links WHERE provider = 'cloudidp'"
const COUNT_OTHERS = `
  SELECT count(*)::int AS people FROM (SELECT FROM provider_links WHERE provider = 'cloudidp'
    GROUP BY user_id HAVING NOT bool_or(issuer = ANY ($1::text[]))) AS p`

const COUNT_CLOUD = `
  SELECT count(*) FILTER (WHERE every_source)::int AS "withoutIssuer", count(*) FILTER (WHERE NOT any_source)::int AS "withIssuer"
  FROM (SELECT bool_and(issuer = $1) AS every_source, bool_or(issuer = $1) AS any_source
    FROM provider_links WHERE provider = 'cloudidp' GROUP BY user_id) AS p`

/** The form of a stable subject, unlike that of a login. */
export const STABLE = "'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"
const isStable = (subject: string): boolean => new RegExp(STABLE.slice(1, -1)).test(subject)

/** The last login by this link; after one by another link of the person, only that it was made is certain. */
export const LAST_LOGIN =
  'CASE WHEN u.provider = l.provider AND u.username = l.subject THEN u.last_login_at ELSE l.created_at END'

// Directories tell the second of a creation. A person who already has a stable link is distinguished by it, so a leftover login of theirs proves nothing.
const FORMER = `
  SELECT l.subject, u.id FROM provider_links l JOIN users u ON u.id = l.user_id
  WHERE l.provider = $1 AND l.issuer = $2 AND l.subject = ANY($3::text[])
    AND ${LAST_LOGIN} > $4::timestamptz + interval '1 second'
    AND NOT EXISTS (
      SELECT FROM provider_links o
      WHERE o.user_id = u.id AND o.provider = $1 AND o.issuer = $2 AND o.subject ~ ${STABLE}
    )
  ORDER BY u.disabled DESC, array_position($3::text[], l.subject) LIMIT 1 FOR UPDATE OF l`
const SET_ASIDE = `
  UPDATE provider_links l SET subject = $5 FROM users u
  WHERE l.provider = $1 AND l.issuer = $2 AND l.subject = $3 AND u.id = l.user_id
    AND ${LAST_LOGIN} < $4::timestamptz - interval '1 hour'
  RETURNING u.id`
const MOVE = 'UPDATE provider_links SET subject = $4 WHERE provider = $1 AND issuer = $2 AND subject = $3'

/**
 * Moves the links of `newId` to `oldId`, with what is remembered of the accounts behind them: the addresses of their logins
 * and the directory account to be looked up. Access is not moved. Both must log in again. Throws NotFound, and
 * Conflict if `newId` has access of its own, is disabled, has no link, or is `oldId`.
 */
export const relinkPerson = (database: Database, actor: Actor, oldId: number, newId: number): Promise<number> =>
  writeAccess(database, async manager => {
    await getPerson(manager, oldId)
    const { assigned, disabled } = await getPerson(manager, newId)
    if (oldId === newId) throw new Conflict({ reason: 'relink-to-itself' })
    if (assigned.profiles.length > 0 || assigned.areas.length > 0) throw new Conflict({ reason: 'relink-has-access' })
    // Their accounts would log in again, with the access of the other.
    if (disabled) throw new Conflict({ reason: 'relink-disabled' })
    const moved = await query<{ subject: string }>(
      manager,
      'UPDATE provider_links SET user_id = $1 WHERE user_id = $2 RETURNING subject',
      [oldId, newId]
    )
    if (moved.length === 0) throw new Conflict({ reason: 'relink-without-link' })
    await raiseVersions(manager, [oldId, newId], true)
    for (const statement of MOVE_ACCOUNT) await query(manager, statement, [oldId, newId])
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

const MOVE_ACCOUNT = [
  'UPDATE login_addresses SET user_id = $1 WHERE user_id = $2',
  // One that is closed is not looked up.
  `DELETE FROM directory_accounts WHERE user_id = $2 AND ended_at IS NOT NULL
    AND EXISTS (SELECT FROM directory_accounts WHERE user_id = $1::int AND ended_at IS NULL)`,
  `DELETE FROM directory_accounts WHERE user_id = $1
    AND EXISTS (SELECT FROM directory_accounts WHERE user_id = $2::int)`,
  'UPDATE directory_accounts SET user_id = $1 WHERE user_id = $2'
]

/** People whose link is their login, and those whose link is a stable subject. */
export const countDirectoryLinks = async (database: Database) => {
  const [row] = await readRows<{ byLogin: number; bySubject: number }>(database, COUNT)
  return row ?? { byLogin: 0, bySubject: 0 }
}

const COUNT = `
  SELECT count(*) FILTER (WHERE NOT stable)::int AS "byLogin", count(*) FILTER (WHERE stable)::int AS "bySubject"
  FROM (SELECT bool_or(subject ~ ${STABLE}) AS stable FROM provider_links WHERE provider = 'ldap' GROUP BY user_id) AS p`
