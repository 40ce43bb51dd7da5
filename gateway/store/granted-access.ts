// Keeps what grants give to people, worked out from the groups in which a provider last saw them.
import type { EntityManager } from 'typeorm'
import type { Provider } from '../identity.ts'
import { type Grants, groupKey, namesIn, type SeenGroups } from '../routes/grants.ts'
import { raiseVersions } from './access-changes.ts'
import { type Actor, type AuditEntry, appendAudit } from './audit-entry.ts'
import type { Database } from './database.ts'
import { findPeople, type StoredPerson } from './people.ts'
import { query } from './query.ts'
import { storableKey } from './storable.ts'

/** What a provider says about the groups of somebody. */
export interface ProviderGroups {
  provider: Provider
  /** As the provider spells them: DNs of a directory, values of a claim. */
  groups: readonly string[]
  /** `tid` of the ID token. */
  tenant?: string | undefined
  /** The provider said that it left groups out: then nothing is granted. */
  isCutOff?: boolean | undefined
}

/** Who acts when route files change what people may do. */
const GRANTS_ACTOR: Actor = { id: null, username: 'grants' }

const MAX_GROUPS = 5_000
const BATCH = 100
/** Any constant; the same for all versions of the gateway. */
const GRANTS_LOCK = 7_263_544_003

/**
 * Remembers the groups of a person whose row this transaction has locked, and grants what they give. The entries are for
 * the audit log, which comes last in a transaction.
 */
export const applyGroups = async (
  manager: EntityManager,
  id: number,
  seen: ProviderGroups,
  grants: Grants,
  isNew = false
): Promise<AuditEntry[]> => {
  const { groups, isCutOff } = storableGroups(seen)
  await query(manager, REMEMBER, [id, seen.provider, (seen.tenant ?? '').toLowerCase(), groups, isCutOff])
  return regrant(manager, [id], grants, isNew)
}

/** The same for somebody who is not logging in. Undefined groups are not known: nothing changes. False for nobody. */
export const applyGroupsOf = (
  database: Database,
  id: number,
  seen: ProviderGroups,
  grants: () => Grants
): Promise<boolean> =>
  database.write(async manager => {
    const [row] = await query(manager, 'SELECT id FROM users WHERE id = $1 FOR UPDATE', [id])
    if (row === undefined) return false
    for (const entry of await applyGroups(manager, id, seen, grants())) await appendAudit(manager, entry)
    return true
  })

/** Creates the areas and profiles that grants name. */
export const createNames = (database: Database, areas: readonly string[], profiles: readonly string[]): Promise<void> =>
  database.write(async manager => {
    await query(manager, CREATE_PROFILES, [profiles])
    const created = await query<{ id: number; name: string }>(manager, CREATE_AREAS, [areas])
    for (const { id, name } of created) {
      const entry = { actor: GRANTS_ACTOR, action: 'area.create', target: `area:${id}`, after: { name } }
      await appendAudit(manager, entry)
    }
  })

/**
 * Grants a batch of people what these grants give to the groups in which they were last seen, unless some instance has
 * done so already. Returns how many people were looked at; 0: none are left.
 */
export const regrantBatch = (database: Database, grants: Grants): Promise<number> =>
  database.write(async manager => {
    await query(manager, 'SELECT pg_advisory_xact_lock($1)', [GRANTS_LOCK])
    const people = await query<{ id: number }>(manager, OUTDATED, [grants.checksum, BATCH])
    const ids = people.map(({ id }) => id)
    for (const entry of await regrant(manager, ids, grants, false)) await appendAudit(manager, entry)
    return ids.length
  })

interface Granted {
  id: number
  checksum: string
  profiles: string[]
  areas: string[]
  main: string
  seen: SeenGroups[]
}

const regrant = async (
  manager: EntityManager,
  ids: readonly number[],
  grants: Grants,
  isNew: boolean
): Promise<AuditEntry[]> => {
  const rows = await query<Granted>(manager, GRANTED, [ids])
  const wanted = rows.map(row => ({ row, next: grantedBy(grants, row.seen) }))
  const changed = wanted.filter(({ row, next }) => !isSame(row, next))
  const stamped = rows.filter(({ checksum }) => checksum !== grants.checksum).map(({ id }) => id)
  const before =
    changed.length === 0
      ? []
      : await findPeople(
          manager,
          changed.map(({ row }) => row.id)
        )
  if (changed.length > 0)
    await replace(
      manager,
      changed.map(({ row, next }) => ({ id: row.id, ...next }))
    )
  if (stamped.length > 0) await query(manager, STAMP, [stamped, grants.checksum])
  return record(manager, before, isNew)
}

/** Raises the versions of people whose access is no longer what it was. */
const record = async (manager: EntityManager, before: readonly StoredPerson[], isNew: boolean) => {
  if (before.length === 0) return []
  const after = await findPeople(
    manager,
    before.map(({ user }) => user.id)
  )
  const entries = before.flatMap((person, index): AuditEntry[] => {
    const [old, now] = [effectiveOf(person), effectiveOf(after[index] ?? person)]
    if (JSON.stringify(old) === JSON.stringify(now)) return []
    const target = `user:${person.user.id}`
    return [{ actor: GRANTS_ACTOR, action: 'access.granted', target, before: old, after: now }]
  })
  const raised = entries.map(({ target = '' }) => Number(target.slice('user:'.length)))
  // A new person has no earlier tokens, and starts at version 0.
  if (!isNew) await raiseVersions(manager, raised)
  return entries
}

const effectiveOf = ({ user: { profiles, areas, areaPrincipal } }: StoredPerson) => ({ profiles, areas, areaPrincipal })

interface Next {
  profiles: string[]
  areas: string[]
  main: string
}

/** The main area is that of the first grant in file order. */
const grantedBy = (grants: Grants, seen: readonly SeenGroups[]): Next => {
  const given = grants.of(seen)
  const areas = namesIn(given, 'areas')
  return { profiles: namesIn(given, 'profiles').sort(), areas, main: areas[0] ?? '' }
}

// Areas are one whatever their case.
const isSame = (row: Granted, next: Next): boolean => {
  const folded = (names: readonly string[]) =>
    JSON.stringify([...new Set(names.map(name => name.toLowerCase()))].sort())
  return (
    JSON.stringify(row.profiles.toSorted()) === JSON.stringify(next.profiles) &&
    folded(row.areas) === folded(next.areas) &&
    row.main.toLowerCase() === next.main.toLowerCase()
  )
}

const replace = async (manager: EntityManager, people: readonly ({ id: number } & Next)[]): Promise<void> => {
  const names = (what: 'profiles' | 'areas') => [...new Set(people.flatMap(person => person[what]))]
  await query(manager, CREATE_PROFILES, [names('profiles')])
  await query(manager, CREATE_AREAS, [names('areas')])
  const ids = people.map(({ id }) => id)
  const rows = JSON.stringify(people)
  await query(manager, 'DELETE FROM granted_profiles WHERE user_id = ANY($1::int[])', [ids])
  await query(manager, 'DELETE FROM granted_areas WHERE user_id = ANY($1::int[])', [ids])
  for (const statement of [GRANT_PROFILES, GRANT_AREAS, MAIN_AREAS]) await query(manager, statement, [rows])
}

/** In the form in which they are compared; more than anybody's groups can be is as good as cut off. */
const storableGroups = ({ provider, groups, isCutOff = false }: ProviderGroups) => {
  const keys = new Set<string>()
  for (const group of groups) {
    const key = storableKey(groupKey(provider, group), 2048)
    if (key !== undefined) keys.add(key)
  }
  const isTooMany = keys.size > MAX_GROUPS
  return { groups: isCutOff || isTooMany ? [] : [...keys].sort(), isCutOff: isCutOff || isTooMany }
}

const REMEMBER = `
  INSERT INTO person_groups (user_id, provider, tenant, groups, cut_off) VALUES ($1, $2, $3, $4::text[], $5)
  ON CONFLICT (user_id, provider) DO UPDATE SET
    tenant = excluded.tenant, groups = excluded.groups, cut_off = excluded.cut_off, seen_at = now()`

const OUTDATED = `
  SELECT u.id FROM users u LEFT JOIN granted_access g ON g.user_id = u.id
  WHERE g.grants_checksum IS DISTINCT FROM $1 AND EXISTS (SELECT FROM person_groups s WHERE s.user_id = u.id)
  ORDER BY u.id LIMIT $2 FOR UPDATE OF u`

const GRANTED = `
  SELECT u.id, coalesce(g.grants_checksum, '') AS checksum,
    ARRAY(SELECT p.name FROM granted_profiles gp JOIN profiles p ON p.id = gp.profile_id
      WHERE gp.user_id = u.id) AS profiles,
    ARRAY(SELECT a.name FROM granted_areas ga JOIN areas a ON a.id = ga.area_id WHERE ga.user_id = u.id) AS areas,
    coalesce((SELECT a.name FROM areas a WHERE a.id = g.main_area_id), '') AS main,
    coalesce((SELECT jsonb_agg(jsonb_build_object('provider', s.provider, 'tenant', s.tenant, 'groups', s.groups))
      FROM person_groups s WHERE s.user_id = u.id), '[]') AS seen
  FROM users u LEFT JOIN granted_access g ON g.user_id = u.id
  WHERE u.id = ANY($1::int[])`

const STAMP = `
  INSERT INTO granted_access (user_id, grants_checksum) SELECT id, $2 FROM unnest($1::int[]) AS id
  ON CONFLICT (user_id) DO UPDATE SET grants_checksum = excluded.grants_checksum`

const CREATE_PROFILES = `
  INSERT INTO profiles (name) SELECT unnest($1::text[]) EXCEPT SELECT name FROM profiles ON CONFLICT DO NOTHING`
const CREATE_AREAS = `
  INSERT INTO areas (name) SELECT unnest($1::text[]) EXCEPT SELECT name FROM areas
  ON CONFLICT DO NOTHING RETURNING id, name`
const PEOPLE = 'jsonb_to_recordset($1::jsonb) AS person (id int, profiles text[], areas text[], main text)'
const GRANT_PROFILES = `
  INSERT INTO granted_profiles (user_id, profile_id)
  SELECT person.id, p.id FROM ${PEOPLE} JOIN profiles p ON p.name = ANY(person.profiles)`
const GRANT_AREAS = `
  INSERT INTO granted_areas (user_id, area_id)
  SELECT DISTINCT person.id, a.id FROM ${PEOPLE}
  CROSS JOIN unnest(person.areas) AS wanted (area) JOIN areas a ON lower(a.name) = lower(wanted.area)`
const MAIN_AREAS = `
  INSERT INTO granted_access (user_id, grants_checksum, main_area_id)
  SELECT person.id, '', a.id FROM ${PEOPLE} LEFT JOIN areas a ON lower(a.name) = lower(person.main)
  ON CONFLICT (user_id) DO UPDATE SET main_area_id = excluded.main_area_id`
