// Keeps the access that grants give to people, derived from the groups in which a provider last saw them.
import type { EntityManager } from 'typeorm'
import type { Provider } from '../identity.ts'
import { type Grants, groupKey, namesIn, type SeenGroups } from '../routes/grants.ts'
import { raiseVersions } from './access-changes.ts'
import { type Actor, type AuditEntry, appendAudits } from './audit-entry.ts'
import type { Database } from './database.ts'
import { CREATE_AREAS, CREATE_PROFILES, type GrantedChange, type GrantedNames, replaceGranted } from './granted-rows.ts'
import { query } from './query.ts'
import { storableKey } from './storable.ts'

/** What a provider reports about a person's groups. */
export interface ProviderGroups {
  provider: Provider
  /** As the provider spells them: DNs of a directory, values of a claim. */
  groups: readonly string[]
  /** `tid` of the ID token. */
  tenant?: string | undefined
  /** The provider reported that it truncated the list, so nothing is granted. */
  isCutOff?: boolean | undefined
}

/** The actor when route files change what people may do. */
const GRANTS_ACTOR: Actor = { id: null, username: 'grants' }

const MAX_GROUPS = 5_000
/** Some tens of milliseconds, during which the people of a batch cannot log in. */
const BATCH = 100
/** An arbitrary constant; the same for all versions of the gateway. */
const GRANTS_LOCK = 7_263_544_003

/**
 * Stores the groups of a person whose row this transaction has locked, and grants what they give. The entries are for
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

/** The same for a person who is not logging in. Undefined groups are unknown, so nothing changes. False: no such person. */
export const applyGroupsOf = (
  database: Database,
  id: number,
  seen: ProviderGroups,
  grants: () => Grants
): Promise<boolean> =>
  database.write(async manager => {
    const [row] = await query(manager, 'SELECT id FROM users WHERE id = $1 FOR UPDATE', [id])
    if (row === undefined) return false
    await appendAudits(manager, await applyGroups(manager, id, seen, grants()))
    return true
  })

/** Creates the areas and profiles that grants name. */
export const createNames = (database: Database, areas: readonly string[], profiles: readonly string[]): Promise<void> =>
  database.write(async manager => {
    await query(manager, CREATE_PROFILES, [profiles])
    const created = await query<{ id: number; name: string }>(manager, CREATE_AREAS, [areas])
    const entries = created.map(({ id, name }) => ({
      actor: GRANTS_ACTOR,
      action: 'area.create',
      target: `area:${id}`,
      after: { name }
    }))
    await appendAudits(manager, entries)
  })

/** The progress of a batch. */
interface Regranted {
  /** People that it processed. */
  readonly people: number
  /** The last of their ids. */
  readonly last: number
}

/**
 * Grants a batch of people with ids above `after` what these grants give to the groups in which they were last seen, unless
 * some instance has already done so.
 */
export const regrantBatch = (database: Database, grants: Grants, after: number): Promise<Regranted> =>
  database.write(async manager => {
    await query(manager, 'SELECT pg_advisory_xact_lock($1)', [GRANTS_LOCK])
    const people = await query<{ id: number }>(manager, OUTDATED, [grants.checksum, after, BATCH])
    const ids = people.map(({ id }) => id)
    await appendAudits(manager, await regrant(manager, ids, grants, false))
    return { people: ids.length, last: ids.at(-1) ?? after }
  })

interface Granted extends GrantedNames {
  readonly checksum: string
  readonly seen: readonly SeenGroups[]
}

const regrant = async (
  manager: EntityManager,
  ids: readonly number[],
  grants: Grants,
  isNew: boolean
): Promise<AuditEntry[]> => {
  if (ids.length === 0) return []
  const rows = await query<Granted>(manager, GRANTED, [ids])
  const wanted = rows.map(row => ({ row, next: grantedBy(grants, row.seen) }))
  const changed = wanted.filter(({ row, next }) => !isSame(row, next)).map(({ row, next }) => ({ id: row.id, ...next }))
  const entries = entriesOf(await replaceGranted(manager, changed))
  const stamped = rows.filter(({ checksum }) => checksum !== grants.checksum).map(({ id }) => id)
  if (stamped.length > 0) await query(manager, STAMP, [stamped, grants.checksum])
  const raised = entries.map(({ id }) => id)
  // A new person has no earlier tokens, and starts at version 0.
  if (!isNew) await raiseVersions(manager, raised)
  return entries.map(({ entry }) => entry)
}

/** The people whose access has changed. */
const entriesOf = (changes: readonly GrantedChange[]): { id: number; entry: AuditEntry }[] =>
  changes.flatMap(({ id, before, after }) => {
    if (JSON.stringify(before) === JSON.stringify(after)) return []
    return [{ id, entry: { actor: GRANTS_ACTOR, action: 'access.granted', target: `user:${id}`, before, after } }]
  })

type Next = Omit<GrantedNames, 'id'>

/** The main area is that of the first grant in file order. */
const grantedBy = (grants: Grants, seen: readonly SeenGroups[]): Next => {
  const given = grants.of(seen)
  const areas = namesIn(given, 'areas')
  return { profiles: namesIn(given, 'profiles').sort(), areas, main: areas[0] ?? '' }
}

// Area names are compared ignoring case.
const isSame = (row: Granted, next: Next): boolean => {
  const folded = (names: readonly string[]) =>
    JSON.stringify([...new Set(names.map(name => name.toLowerCase()))].sort())
  return (
    JSON.stringify(row.profiles.toSorted()) === JSON.stringify(next.profiles) &&
    folded(row.areas) === folded(next.areas) &&
    row.main.toLowerCase() === next.main.toLowerCase()
  )
}

/** In the form in which they are compared; more groups than anyone can have count as a truncated list. */
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
  WHERE u.id > $2 AND g.grants_checksum IS DISTINCT FROM $1
    AND EXISTS (SELECT FROM person_groups s WHERE s.user_id = u.id)
  ORDER BY u.id LIMIT $3 FOR UPDATE OF u`

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
