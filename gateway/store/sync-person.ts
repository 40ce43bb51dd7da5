// Creates or updates a person whom a provider has authenticated, however many of their logins arrive at once; applies BOOTSTRAP_ADMINS.
import type { EntityManager } from 'typeorm'
import { LoginFailed } from '../errors.ts'
import type { ProvenPerson } from '../identity.ts'
import type { BootstrapAdmin } from '../settings/settings.ts'
import { raiseVersions } from './access-changes.ts'
import { type AuditEntry, appendAudit, appendAudits } from './audit-entry.ts'
import type { Database } from './database.ts'
import { confirmAccount, dropEndedGroups } from './directory-accounts.ts'
import { applyGroups } from './granted-access.ts'
import { adoptLink, keepOtherLink, type Link, setAsideFormer, upgradeLink } from './links.ts'
import { findPerson, getPerson, type StoredPerson } from './people.ts'
import { lockAccess, query, storableKey, storableText } from './query.ts'

export interface ConfirmedPerson extends ProvenPerson {
  bootstrapAdmins?: readonly BootstrapAdmin[]
}

export interface SyncedPerson extends StoredPerson {
  /** Whether this login created the person. */
  firstLogin: boolean
}

/**
 * Creates or updates the person behind (provider, issuer, subject), the only key: people are never found by e-mail. One
 * transaction. A disabled person is neither updated nor promoted; the caller refuses them. Throws LoginFailed for a person who
 * is being erased or relinked, and for an issuer or subject that is empty or cannot be stored as it is; DatabaseUnavailable.
 */
export const syncPerson = async (database: Database, confirmed: ConfirmedPerson): Promise<SyncedPerson> => {
  const [issuer, subject] = [storableKey(confirmed.issuer), storableKey(confirmed.subject)]
  if (issuer === undefined || subject === undefined) throw new LoginFailed({ reason: 'unusable-subject' })
  const link: Link = [confirmed.provider, issuer, subject]
  const names = [confirmed.name, confirmed.email, confirmed.username].map(text => storableText(text))
  return database.write(async manager => {
    const bootstrap = await dueBootstrap(manager, confirmed)
    const { entryCreatedAt } = confirmed
    const setAside = entryCreatedAt && (await setAsideFormer(manager, link, entryCreatedAt))
    const found = (await updateKnown(manager, link, names)) ?? (await createOnce(manager, link, names, confirmed))
    if (setAside !== undefined) found.entries.push(setAside)
    const { id, created: firstLogin } = found
    const person = await findPerson(manager, id)
    // The statement above waited for an erasure, or for the account to be relinked.
    const [moved] = await query(manager, MOVED, [...link, id])
    if (person === undefined || moved !== undefined) throw new LoginFailed({ reason: 'ended-meanwhile' })
    if (person.disabled) {
      await appendAudits(manager, found.entries)
      return { ...person, firstLogin }
    }
    if (confirmed.linkWithoutIssuer !== undefined) await keepOtherLink(manager, id, confirmed.linkWithoutIssuer)
    const { login, groupsUnreadable } = confirmed
    const hasLapsed =
      login !== undefined && (await confirmAccount(manager, id, { subject, login }, groupsUnreadable !== undefined))
    const seen = hasLapsed ? { ...confirmed, groups: [] } : confirmed
    const { groups, groupsCutOff: isCutOff } = seen
    const granted = confirmed.provider === 'ldap' || firstLogin ? [] : await dropEndedGroups(manager, id)
    if (groups !== undefined)
      granted.push(...(await applyGroups(manager, id, { ...seen, groups, isCutOff }, firstLogin)))
    const isBootstrapped = await applyBootstrap(manager, bootstrap, person, firstLogin)
    await appendAudits(manager, [...found.entries, ...granted])
    const isChanged = isBootstrapped || granted.length > 0
    return { ...(isChanged ? await getPerson(manager, id) : person), firstLogin }
  })
}

interface Found {
  id: number
  created: boolean
  entries: AuditEntry[]
}

const updateKnown = async (manager: EntityManager, link: Link, names: string[]): Promise<Found | undefined> => {
  const [row] = await query<{ id: number }>(manager, UPDATE, [...link, ...names])
  return row === undefined ? undefined : { id: row.id, created: false, entries: [] }
}

/**
 * Logins of one new person queue here, also those at an instance with other settings, which links the account in the other way:
 * the first creates the person, the others find what it committed.
 */
const createOnce = async (
  manager: EntityManager,
  link: Link,
  names: string[],
  { names: logins, entryCreatedAt, linkWithoutIssuer }: ConfirmedPerson
): Promise<Found> => {
  const { issuer, subject } = linkWithoutIssuer ?? {}
  for (const key of [link, ...(issuer === undefined ? [] : [[link[0], issuer, subject]])])
    await query(manager, 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [JSON.stringify(key)])
  const known = await updateKnown(manager, link, names)
  if (known !== undefined) return known
  const history = logins && entryCreatedAt && { formerSubjects: logins, createdAt: entryCreatedAt }
  const upgraded =
    (history && (await upgradeLink(manager, link, history))) ??
    (linkWithoutIssuer && (await adoptLink(manager, link, linkWithoutIssuer)))
  const former = upgraded && (await updateKnown(manager, link, names))
  if (former !== undefined) return { ...former, entries: [upgraded].filter(entry => entry !== undefined) }
  const [created] = await query<{ id: number }>(manager, CREATE, [...link, ...names])
  if (created === undefined) throw new Error('the new person was not stored')
  return { id: created.id, created: true, entries: [] }
}

const UPDATE = `
  UPDATE users u SET
    provider = CASE WHEN u.disabled THEN u.provider ELSE l.provider END,
    name = CASE WHEN u.disabled THEN u.name ELSE $4 END,
    email = CASE WHEN u.disabled THEN u.email ELSE $5 END,
    username = CASE WHEN u.disabled THEN u.username ELSE $6 END,
    last_login_at = CASE WHEN u.disabled THEN u.last_login_at ELSE now() END
  FROM provider_links l
  WHERE l.provider = $1 AND l.issuer = $2 AND l.subject = $3 AND u.id = l.user_id
  RETURNING u.id`

const MOVED = `
  SELECT FROM provider_links WHERE provider = $1 AND issuer = $2 AND subject = $3 AND user_id <> $4`

const CREATE = `
  WITH person AS (
    INSERT INTO users (provider, name, email, username, last_login_at) VALUES ($1, $4, $5, $6, now()) RETURNING id
  )
  INSERT INTO provider_links (provider, issuer, subject, user_id) SELECT $1, $2, $3, id FROM person
  RETURNING user_id AS id`

const AREA = 'Geral'

/**
 * The entry that has to be applied to the person who is logging in, or undefined. Takes the access lock for it, so it comes
 * first in the login's transaction, before the person is locked.
 */
const dueBootstrap = async (
  manager: EntityManager,
  candidate: ConfirmedPerson
): Promise<BootstrapAdmin | undefined> => {
  const entry = (candidate.bootstrapAdmins ?? []).find(admin => meets(admin, candidate))
  if (entry === undefined) return undefined
  const applied = await query(manager, APPLIED, [entry.provider, normal(entry)])
  if (applied.length > 0) return undefined
  await lockAccess(manager)
  return entry
}

/** Whether the entry was applied to this person now. Part of the login's transaction. */
const applyBootstrap = async (
  manager: EntityManager,
  entry: BootstrapAdmin | undefined,
  person: StoredPerson,
  firstLogin: boolean
): Promise<boolean> => {
  if (entry === undefined) return false
  const id = person.user.id
  const claimed = await query(manager, CLAIM, [entry.provider, normal(entry), id])
  if (claimed.length === 0) return false
  await grant(manager, id)
  // A new person has no earlier tokens, and starts at version 0.
  if (!firstLogin) await raiseVersions(manager, [id])
  const { assigned: after } = await getPerson(manager, id)
  const actor = { id: null, username: 'BOOTSTRAP_ADMINS' }
  await appendAudit(manager, {
    actor,
    action: 'access.bootstrap',
    target: `user:${id}`,
    before: person.assigned,
    after
  })
  return true
}

/** A directory login is compared ignoring case, a cloud subject exactly. */
const meets = (entry: BootstrapAdmin, { provider, subject, username, isUsernameShared }: ConfirmedPerson): boolean => {
  if (entry.provider !== provider || isUsernameShared === true) return false
  return provider === 'ldap' ? normal(entry) === username.trim().toLowerCase() : entry.subject === subject
}

const normal = ({ provider, subject }: BootstrapAdmin) =>
  provider === 'ldap' ? subject.normalize('NFC').trim().toLowerCase() : subject

const grant = async (manager: EntityManager, id: number) => {
  await query(manager, 'INSERT INTO areas (name) VALUES ($1) ON CONFLICT DO NOTHING', [AREA])
  await query(
    manager,
    "INSERT INTO user_profiles SELECT $1, id FROM profiles WHERE name = 'Admin' ON CONFLICT DO NOTHING",
    [id]
  )
  const area = 'SELECT id FROM areas WHERE lower(name) = lower($2)'
  await query(manager, `INSERT INTO user_areas SELECT $1, id FROM (${area}) AS area ON CONFLICT DO NOTHING`, [id, AREA])
  await query(manager, `UPDATE users SET main_area_id = coalesce(main_area_id, (${area})) WHERE id = $1`, [id, AREA])
}

// The hash is what is left of an entry when its person has been erased.
const APPLIED = `
  SELECT 1 FROM bootstrap_applied
  WHERE provider = $1 AND subject IN ($2, encode(sha256(convert_to($2, 'UTF8')), 'hex'))`
const CLAIM = `
  INSERT INTO bootstrap_applied (provider, subject, user_id) VALUES ($1, $2, $3)
  ON CONFLICT DO NOTHING RETURNING user_id`
