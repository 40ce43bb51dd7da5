// Works out the access that the grants in force give to people, from the groups in which a provider last saw them.
import type { EntityManager } from 'typeorm'
import type { Provider } from '../identity.ts'
import { groupKey } from '../routes/grants.ts'
import { raiseVersions } from './access-changes.ts'
import { type AuditEntry, appendAudits } from './audit-entry.ts'
import type { Database } from './database.ts'
import { GRANTS_ACTOR, MATCHING_GRANTS } from './grants-in-force.ts'
import { GRANTS_LOCK, lockPeople, query, storableKey } from './query.ts'

/** What a provider reports about a person's groups. */
interface ProviderGroups {
  provider: Provider
  /** As the provider spells them: DNs of a directory, values of a claim. */
  groups: readonly string[]
  /** `tid` of the ID token. */
  tenant?: string | undefined
  /** The provider reported that it truncated the list, so nothing is granted. */
  isCutOff?: boolean | undefined
  /** Since they began to be read: what was stored since then is newer, and stays. undefined: these are stored. */
  ageMs?: number | undefined
}

const MAX_GROUPS = 5_000
/** An index of Postgres holds little more. */
const MAX_KEY_BYTES = 2560
/** Some tens of milliseconds, during which the people of a batch cannot log in. */
const BATCH = 200

/**
 * Stores the groups of a person whose row this transaction has locked, and grants what they give. The entries are for
 * the audit log, which comes last in a transaction.
 */
export const applyGroups = async (
  manager: EntityManager,
  id: number,
  seen: ProviderGroups,
  isNew = false
): Promise<AuditEntry[]> => {
  const { groups, isCutOff } = storableGroups(seen)
  const row = [id, seen.provider, (seen.tenant ?? '').toLowerCase(), groups, isCutOff]
  await query(manager, REMEMBER, [...row, GRANTS_LOCK, seen.ageMs])
  return regrant(manager, [id], isNew)
}

/**
 * The same for a person who is not logging in. False: no such person, or one who has been erased meanwhile.
 * @param readAt when the groups began to be read, by `performance.now()`; what a login has stored since then stays
 */
export const applyGroupsOf = (
  database: Database,
  id: number,
  seen: ProviderGroups,
  readAt?: number
): Promise<boolean> =>
  database.write(async manager => {
    // By the beginning of the transaction, which now() is.
    const ageMs = readAt === undefined ? undefined : performance.now() - readAt
    const [row] = await query(manager, LOCK, [id])
    if (row === undefined) return false
    await appendAudits(manager, await applyGroups(manager, id, { ...seen, ageMs }))
    return true
  })

/**
 * Works out the access of the next people of the pass that a change of the grants in force began; instances take turns.
 * Returns the number of these people; undefined if the pass is done, or these are no longer the grants in force.
 */
export const regrantBatch = (database: Database, checksum: string): Promise<number | undefined> =>
  database.write(async manager => {
    const [pass] = await query<{ after: number }>(manager, NEXT_PASS, [checksum])
    if (pass === undefined) return undefined
    await query(manager, BY_INDEX)
    const rows = await query<{ id: number }>(manager, NEXT_PEOPLE, [pass.after, BATCH])
    // A person may have groups at two providers.
    const ids = [...new Set(rows.map(({ id }) => id))]
    await lockPeople(manager, ids)
    const entries = await regrant(manager, ids, false)
    await query(manager, PASSED, [rows.length < BATCH ? null : ids.at(-1)])
    await appendAudits(manager, entries)
    return ids.length
  })

/** Requires the rows of these people to be locked. */
const regrant = async (manager: EntityManager, ids: readonly number[], isNew: boolean): Promise<AuditEntry[]> => {
  if (ids.length === 0) return []
  const changes = await query<{ id: number; before: object; after: object }>(manager, REGRANT, [ids])
  // A new person has no earlier tokens, and starts at version 0.
  const raised = isNew ? [] : changes.map(({ id }) => id)
  await raiseVersions(manager, raised)
  return changes.map(({ id, before, after }) => ({
    actor: GRANTS_ACTOR,
    action: 'access.granted',
    target: `user:${id}`,
    before,
    after
  }))
}

/** In the form in which they are compared; more groups than anyone can have count as a truncated list. */
const storableGroups = ({ provider, groups, isCutOff = false }: ProviderGroups) => {
  const keys = new Set<string>()
  for (const group of groups) {
    const key = storableKey(groupKey(provider, group), 2048)
    if (key !== undefined && Buffer.byteLength(key) <= MAX_KEY_BYTES) keys.add(key)
  }
  const isTooMany = keys.size > MAX_GROUPS
  return { groups: isCutOff || isTooMany ? [] : [...keys].sort(), isCutOff: isCutOff || isTooMany }
}

const LOCK = 'SELECT FROM users WHERE id = $1 AND erased_at IS NULL FOR NO KEY UPDATE'

// The grants stay the same from this statement until the end of the transaction.
const REMEMBER = `
  INSERT INTO person_groups AS held (user_id, provider, tenant, groups, cut_off)
  SELECT $1::integer, $2, $3, $4::text[], $5::boolean FROM pg_advisory_xact_lock_shared($6)
  ON CONFLICT (user_id, provider) DO UPDATE SET
    tenant = excluded.tenant, groups = excluded.groups, cut_off = excluded.cut_off, seen_at = now()
  WHERE $7::float8 IS NULL OR held.seen_at NOT BETWEEN now() - $7 * interval '1 millisecond' AND clock_timestamp()`

const NEXT_PASS = `
  SELECT regranted_to AS after FROM grants_in_force WHERE regranted_to IS NOT NULL AND checksum = $1 FOR UPDATE`

const PASSED = 'UPDATE grants_in_force SET regranted_to = $1, seen_at = now()'

const NEXT_PEOPLE = 'SELECT user_id AS id FROM person_groups WHERE user_id > $1 ORDER BY user_id LIMIT $2'

// Postgres may have no statistics yet, and would then read whole tables for each batch.
const BY_INDEX = 'SET LOCAL enable_seqscan = off'

/** The ids of what a person has, ascending. */
const idsIn = (table: string, column: string) =>
  `ARRAY(SELECT t.${column} FROM ${table} t WHERE t.user_id = u.id ORDER BY t.${column})`

/** All access of a person, assigned and granted, as the public API shows it. */
const effective = (profiles: string, areas: string, main: string) => `
  jsonb_build_object(
    'profiles', ARRAY(SELECT p.name FROM profiles p WHERE p.id = ANY (c.own_profiles || ${profiles}) ORDER BY p.id),
    'areas', ARRAY(SELECT a.name FROM areas a WHERE a.id = ANY (c.own_areas || ${areas}) ORDER BY lower(a.name)),
    'areaPrincipal', coalesce((SELECT a.name FROM areas a WHERE a.id = coalesce(c.own_main, ${main})), ''))`

/**
 * Stores what the grants in force give to the people of $1, touching only rows that differ, and returns those whose access
 * has changed. The main area is that of the first grant in file order. Area names are compared ignoring case.
 */
const REGRANT = `
  WITH ${MATCHING_GRANTS}, given_profiles AS (
    SELECT m.user_id, array_agg(DISTINCT p.id ORDER BY p.id) AS ids
    FROM matching m CROSS JOIN LATERAL unnest(m.profiles) AS given (name) JOIN profiles p ON p.name = given.name
    GROUP BY m.user_id
  ), given_areas AS (
    SELECT m.user_id, array_agg(DISTINCT a.id ORDER BY a.id) AS ids,
      (array_agg(a.id ORDER BY m.position, given.number))[1] AS main
    FROM matching m CROSS JOIN LATERAL unnest(m.areas) WITH ORDINALITY AS given (name, number)
      JOIN areas a ON lower(a.name) = lower(given.name)
    GROUP BY m.user_id
  ), compared AS MATERIALIZED (
    SELECT u.id, u.main_area_id AS own_main, held.main_area_id AS held_main, a.main,
      ${idsIn('user_profiles', 'profile_id')} AS own_profiles, ${idsIn('user_areas', 'area_id')} AS own_areas,
      ${idsIn('granted_profiles', 'profile_id')} AS held_profiles, ${idsIn('granted_areas', 'area_id')} AS held_areas,
      coalesce(p.ids, '{}') AS profiles, coalesce(a.ids, '{}') AS areas
    FROM users u LEFT JOIN granted_access held ON held.user_id = u.id
      LEFT JOIN given_profiles p ON p.user_id = u.id LEFT JOIN given_areas a ON a.user_id = u.id
    WHERE u.id = ANY ($1::int[]) AND EXISTS (SELECT FROM grants_in_force)
  ), fewer_profiles AS (
    DELETE FROM granted_profiles g USING compared c
    WHERE g.user_id = ANY ($1::int[]) AND g.user_id = c.id AND g.profile_id <> ALL (c.profiles)
  ), fewer_areas AS (
    DELETE FROM granted_areas g USING compared c
    WHERE g.user_id = ANY ($1::int[]) AND g.user_id = c.id AND g.area_id <> ALL (c.areas)
  ), more_profiles AS (
    INSERT INTO granted_profiles (user_id, profile_id)
    SELECT c.id, given FROM compared c CROSS JOIN LATERAL unnest(c.profiles) AS given WHERE given <> ALL (c.held_profiles)
  ), more_areas AS (
    INSERT INTO granted_areas (user_id, area_id)
    SELECT c.id, given FROM compared c CROSS JOIN LATERAL unnest(c.areas) AS given WHERE given <> ALL (c.held_areas)
  ), stamped AS (
    INSERT INTO granted_access AS held (user_id, grants_checksum, main_area_id)
    SELECT c.id, (SELECT f.checksum FROM grants_in_force f), c.main FROM compared c
    ON CONFLICT (user_id) DO UPDATE
      SET grants_checksum = excluded.grants_checksum, main_area_id = excluded.main_area_id
      WHERE (held.grants_checksum, held.main_area_id) IS DISTINCT FROM (excluded.grants_checksum, excluded.main_area_id)
  ), changed AS MATERIALIZED (
    SELECT c.id, ${effective('c.held_profiles', 'c.held_areas', 'c.held_main')} AS before,
      ${effective('c.profiles', 'c.areas', 'c.main')} AS after
    FROM compared c
    WHERE (c.held_profiles, c.held_areas, c.held_main) IS DISTINCT FROM (c.profiles, c.areas, c.main)
  )
  SELECT id, before, after FROM changed WHERE before <> after ORDER BY id`
