// Removes what identifies a person. The row stays, without a name, so that no token of theirs becomes valid again.
import type { EntityManager } from 'typeorm'
import { BadRequest, Conflict } from '../errors.ts'
import { raiseVersions } from './access-changes.ts'
import { digestOf } from './audit-chain.ts'
import { type Actor, appendAudit, keysOf } from './audit-entry.ts'
import { type Database, readRows } from './database.ts'
import { guardsOfPerson } from './login-names.ts'
import { getPerson, type StoredPerson } from './people.ts'
import { lockPeople, query, rowId } from './query.ts'
import { checkRight, writeAs } from './write-as.ts'

/**
 * Ends every token of the person, and removes names, e-mail, links, access, sessions and addresses, also from entries of
 * the audit log that were written with a key; those from before keep theirs until they are archived. Who logs in with the
 * same account afterwards is a new person. Throws NotFound, BadRequest if the username is another one, Conflict for an Admin.
 * Where it ends early, some entries have lost their names, and the next attempt goes on.
 * @param username as it was typed to confirm this
 */
export const erasePerson = async (database: Database, actor: Actor, id: number, username: string): Promise<void> => {
  const former = await readRows<{ name: string }>(database, FORMER_NAMES, [rowId(id)])
  const names = [username, ...former.map(({ name }) => name)]
  const erased = { entries: 0, last: 0 }
  // Logins that were refused under their names come first: an attempt that ends early leaves the entries that know the former names.
  for (const by of [undefined, id]) {
    erased.last = 0
    for (let isFull = true; isFull; ) {
      const portion = await database.write(async manager => {
        await checkRight(manager, actor)
        await getErasable(manager, id, username)
        return eraseFromAudit(manager, { id: by, names }, erased.last, PORTION)
      })
      erased.entries += portion.entries
      erased.last = portion.last
      isFull = portion.isFull
    }
  }
  await writeAs(database, actor, async manager => {
    await lockPeople(manager, [id])
    const { user } = await getErasable(manager, id, username)
    await raiseVersions(manager, [id], true)
    const { guards } = await guardsOfPerson(manager, user)
    await query(manager, FORGET_NAMES, [id, guards])
    for (const table of TABLES) await query(manager, `DELETE FROM ${table} WHERE user_id = $1`, [id])
    await query(manager, FORGET_BOOTSTRAP, [id])
    await query(manager, ERASE, [id])
    // What was written since.
    const entries = erased.entries + (await eraseFromAudit(manager, { id, names }, erased.last, null)).entries
    await appendAudit(manager, { actor, action: 'person.erase', target: `user:${id}`, details: { entries } })
  })
}

/** Entries of one transaction, which ends well within its deadline however many there are. */
const PORTION = 2_000

const getErasable = async (manager: EntityManager, id: number, username: string): Promise<StoredPerson> => {
  const person = await getPerson(manager, id)
  if (person.user.username !== username)
    throw new BadRequest({ reason: 'other-username', message: 'body/username is not the username of this person' })
  if (person.user.profiles.includes('Admin'))
    throw new Conflict({ reason: 'erases-admin', message: 'An Admin cannot be erased: take the profile away first' })
  return person
}

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

/** The next entries by the person, if there is an `id`, and failed logins under their names, after the one numbered `after`. */
const eraseFromAudit = async (
  manager: EntityManager,
  { id, names: theirs }: { readonly id: number | undefined; readonly names: readonly string[] },
  after: number,
  most: number | null
) => {
  const rows = await query<{ id: number }>(manager, THEIRS, [id, id && `user:${id}`, after, most, theirs])
  const ids = rows.map(row => row.id)
  let entries = 0
  for (const key of keysOf(manager)) {
    const texts = await query<{ name: string; ip: string }>(manager, WRITTEN, [ids, key.id])
    const names = [...new Set(texts.flatMap(({ name, ip }) => [name, ip]))].filter(text => text !== '')
    const digests = names.map(text => digestOf(key, text))
    entries += (await query(manager, ERASE_WRITTEN, [ids, key.id, names, digests])).length
  }
  return { entries, last: ids.at(-1) ?? after, isFull: ids.length === most }
}

// Each arm has an index that ends in the number of the entry. A cloud login that is refused before it is known whose it is has the
// name that the provider gave, and no target.
const THEIRS = `
  SELECT id::float8 AS id FROM (
    (SELECT id FROM audit_events WHERE actor_id = $1 AND id > $3 ORDER BY id LIMIT $4)
    UNION (SELECT id FROM audit_events WHERE target = $2 AND actor_id IS NULL AND action = 'login.failed' AND id > $3
      ORDER BY id LIMIT $4)
    UNION (SELECT id FROM audit_events WHERE actor_id IS NULL AND target = ''
      AND lower(actor_username) IN (SELECT lower(name) FROM unnest($5::text[]) AS name WHERE name <> '')
      AND action = 'login.failed' AND id > $3 ORDER BY id LIMIT $4)) AS theirs
  ORDER BY id LIMIT $4`

const FORMER_NAMES = `
  SELECT DISTINCT actor_username AS name FROM audit_events WHERE actor_id = $1 AND actor_username <> ''`

const OF_KEY = 'e.id = ANY ($1::bigint[]) AND e.key_id = $2'

const WRITTEN = `SELECT DISTINCT e.actor_username AS name, e.ip FROM audit_events e WHERE ${OF_KEY}`

const ERASE_WRITTEN = `
  WITH digest AS (SELECT * FROM unnest($3::text[], $4::text[]) AS d (said, hash))
  UPDATE audit_events e SET
    actor_username = '', actor_digest = coalesce(e.actor_digest, (SELECT hash FROM digest WHERE said = e.actor_username)),
    ip = '', ip_digest = coalesce(e.ip_digest, (SELECT hash FROM digest WHERE said = e.ip))
  WHERE ${OF_KEY} AND (e.actor_username <> '' OR e.ip <> '') RETURNING e.id`
