// Removes what identifies a person. The row stays, without a name, so that no token of theirs becomes valid again.
import type { EntityManager } from 'typeorm'
import { BadRequest, Conflict } from '../errors.ts'
import { raiseVersions } from './access-changes.ts'
import { digestOf } from './audit-chain.ts'
import { type Actor, appendAudit, keysOf } from './audit-entry.ts'
import type { Database } from './database.ts'
import { guardsOfPerson } from './login-names.ts'
import { getPerson } from './people.ts'
import { lockAccess, lockPeople, query } from './query.ts'

/**
 * Ends every token of the person, and removes names, e-mail, links, access, sessions and addresses, also from entries of
 * the audit log that were written with a key; those from before keep theirs until they are archived. Who logs in with the
 * same account afterwards is a new person. Throws NotFound, BadRequest if the username is another one, Conflict for an Admin.
 * @param username as it was typed to confirm this
 */
export const erasePerson = (database: Database, actor: Actor, id: number, username: string): Promise<void> =>
  database.write(async manager => {
    await lockAccess(manager)
    await lockPeople(manager, [id])
    const { user } = await getPerson(manager, id)
    if (user.username !== username)
      throw new BadRequest({ reason: 'other-username', message: 'body/username is not the username of this person' })
    if (user.profiles.includes('Admin'))
      throw new Conflict({ reason: 'erases-admin', message: 'An Admin cannot be erased: take the profile away first' })
    await raiseVersions(manager, [id], true)
    const { guards } = await guardsOfPerson(manager, id, user.username)
    await query(manager, FORGET_NAMES, [id, guards])
    for (const table of TABLES) await query(manager, `DELETE FROM ${table} WHERE user_id = $1`, [id])
    await query(manager, FORGET_BOOTSTRAP, [id])
    await query(manager, ERASE, [id])
    const entries = await eraseFromAudit(manager, id)
    await appendAudit(manager, { actor, action: 'person.erase', target: `user:${id}`, details: { entries } })
  })

// Failed logins stay until their window ends: the directory counts them too, and they contain no name.
const FORGET_NAMES = `
  DELETE FROM login_names WHERE login = ANY ($2::text[]) OR account = ANY ($2::text[])
    OR subject IN (SELECT subject FROM provider_links WHERE user_id = $1)`

const TABLES = [
  'provider_links',
  'provider_sessions',
  'personal_tokens',
  'directory_accounts',
  'login_addresses',
  'person_groups',
  'granted_access',
  'granted_profiles',
  'granted_areas',
  'user_profiles',
  'user_areas'
]

// An entry of BOOTSTRAP_ADMINS is applied once, even if its person has been erased since.
const FORGET_BOOTSTRAP = `
  UPDATE bootstrap_applied SET subject = encode(sha256(convert_to(subject, 'UTF8')), 'hex') WHERE user_id = $1`

const ERASE = `
  UPDATE users SET name = '', email = '', username = '', main_area_id = NULL, last_login_at = NULL, disabled = true,
    erased_at = now()
  WHERE id = $1`

/** Entries by the person, and failed logins under their name. Returns their number. */
const eraseFromAudit = async (manager: EntityManager, id: number): Promise<number> => {
  let count = 0
  for (const key of keysOf(manager)) {
    const texts = await query<{ name: string; ip: string }>(manager, WRITTEN, [id, `user:${id}`, key.id])
    const names = [...new Set(texts.flatMap(({ name, ip }) => [name, ip]))].filter(text => text !== '')
    const digests = names.map(text => digestOf(key, text))
    const erased = await query(manager, ERASE_WRITTEN, [id, `user:${id}`, key.id, names, digests])
    count += erased.length
  }
  return count
}

const THEIRS = `
  e.key_id = $3 AND e.id IN (
    SELECT id FROM audit_events WHERE actor_id = $1
    UNION SELECT id FROM audit_events WHERE target = $2 AND actor_id IS NULL AND action = 'login.failed')`

const WRITTEN = `SELECT DISTINCT e.actor_username AS name, e.ip FROM audit_events e WHERE ${THEIRS}`

const ERASE_WRITTEN = `
  WITH digest AS (SELECT * FROM unnest($4::text[], $5::text[]) AS d (said, hash))
  UPDATE audit_events e SET
    actor_username = '', actor_digest = coalesce(e.actor_digest, (SELECT hash FROM digest WHERE said = e.actor_username)),
    ip = '', ip_digest = coalesce(e.ip_digest, (SELECT hash FROM digest WHERE said = e.ip))
  WHERE ${THEIRS} AND (e.actor_username <> '' OR e.ip <> '') RETURNING e.id`
