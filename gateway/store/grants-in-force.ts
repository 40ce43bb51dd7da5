// Stores the grants of the newest route files, once for all instances: the grants in force, by which everyone's access is worked out.
import type { EntityManager } from 'typeorm'
import { type Grant, type Grants, groupKey, namesIn } from '../routes/grants.ts'
import { type Actor, appendAudits } from './audit-entry.ts'
import { type Database, writeAccess } from './database.ts'
import { GRANTS_LOCK, query } from './query.ts'

/** The grants of an instance's route files. */
export interface LoadedGrants {
  readonly grants: Grants
  /** Profiles beyond the built-in ones. */
  readonly profiles: readonly string[]
  /** When the newest of the files was changed. */
  readonly changedAt: Date
}

export interface GrantsProgress {
  /** Counts the changes of the grants in force. */
  readonly generation: number
  /** Whether these grants are the ones in force; otherwise another instance has newer files. */
  readonly isInForce: boolean
  /** Whether everyone's access has been worked out from the grants in force. */
  readonly isDone: boolean
}

/** The actor when route files change what people may do. */
export const GRANTS_ACTOR: Actor = { id: null, username: 'grants' }

/** Instances with the grants in force report this often that they are there. */
export const REPORT_MS = 10_000
/** After this time without a report no instance has the newer files any more, and older ones come into force. */
const ABANDONED_S = 60

/**
 * Puts these grants into force, unless those in force come from newer files. Creates the profiles and areas that they name
 * in any case.
 * @param replacesAbandoned whether they also replace those of newer files that no instance has any more
 */
export const loadGrants = (
  database: Database,
  { grants, profiles, changedAt }: LoadedGrants,
  replacesAbandoned = false
): Promise<GrantsProgress> =>
  writeAccess(database, async manager => {
    await query(manager, CREATE_PROFILES, [profiles])
    const areas = await query<{ id: number; name: string }>(manager, CREATE_AREAS, [namesIn(grants.list, 'areas')])
    const [known] = await query<Checked>(manager, `${COMPARED} FOR UPDATE`, [grants.checksum, changedAt])
    const isOlder =
      known !== undefined && !known.isInForce && !known.isNewer && !(known.isAbandoned && replacesAbandoned)
    const progress = isOlder ? known : await enforce(manager, grants, changedAt, known?.isInForce !== true)
    const entries = areas.map(({ id, name }) => ({
      actor: GRANTS_ACTOR,
      action: 'area.create',
      target: `area:${id}`,
      after: { name }
    }))
    await appendAudits(manager, entries)
    return progress
  })

const enforce = async (
  manager: EntityManager,
  { list, checksum }: Grants,
  changedAt: Date,
  isChanged: boolean
): Promise<GrantsProgress> => {
  // From here on logins wait until these grants are committed.
  if (isChanged) await query(manager, 'SELECT pg_advisory_xact_lock($1)', [GRANTS_LOCK])
  const [stored] = await query<Pick<GrantsProgress, 'generation' | 'isDone'>>(manager, ENFORCE, [checksum, changedAt])
  await query(manager, 'DELETE FROM grant_rules')
  await query(manager, WRITE_RULES, [JSON.stringify(list.map(ruleOf))])
  if (stored === undefined) throw new Error('the grants were not stored')
  if (!stored.isDone) return { ...stored, isInForce: true }
  // People whom the previous release has granted something since, or who were never looked at.
  const [left] = await query(manager, RESTART, [checksum])
  return { ...stored, isInForce: true, isDone: left === undefined }
}

/**
 * Compares these grants with those in force; if they are the same, reports that an instance has them. `isDue`: loading
 * them would put them into force, or create profiles that a restored backup lacks.
 */
export const checkGrants = (
  database: Database,
  { grants, profiles, changedAt }: LoadedGrants
): Promise<GrantsProgress & { readonly isDue: boolean }> =>
  database.read(async manager => {
    await query(manager, REDATE)
    const [known] = await query<Checked>(manager, COMPARED, [grants.checksum, changedAt])
    if (known === undefined) return { generation: 0, isInForce: false, isDone: false, isDue: true }
    if (known.isInForce) await query(manager, REPORT, [grants.checksum, REPORT_MS])
    const [missing] = await query(manager, MISSING_PROFILES, [profiles])
    const isDue = missing !== undefined || (!known.isInForce && (known.isNewer || known.isAbandoned))
    return { ...known, isDue }
  })

interface Checked extends GrantsProgress {
  /** Newer than those in force. */
  readonly isNewer: boolean
  /** No instance has reported those in force for a while. */
  readonly isAbandoned: boolean
}

const ruleOf = ({ provider, group, tenant = '', profiles, areas, place }: Grant, position: number) => ({
  position,
  provider,
  group_key: groupKey(provider, group) ?? '',
  tenant,
  group_name: group,
  profiles,
  areas,
  place: `${place.file}:${place.line}:${place.column}`
})

// Files of the same age are ordered by their contents, so that all instances come to the same result.
const COMPARED = `
  SELECT generation, checksum = $1 AS "isInForce", regranted_to IS NULL AS "isDone",
    (changed_at, checksum) < ($2::timestamptz, $1) AS "isNewer",
    seen_at < now() - interval '${ABANDONED_S} seconds' AS "isAbandoned"
  FROM grants_in_force`

// The first ones begin with what people were granted before they were stored here.
const ENFORCE = `
  INSERT INTO grants_in_force AS f (generation, checksum, changed_at) VALUES (1, $1, $2)
  ON CONFLICT (one) DO UPDATE SET
    generation = f.generation + (f.checksum <> excluded.checksum)::int,
    regranted_to = CASE WHEN f.checksum = excluded.checksum THEN f.regranted_to ELSE 0 END,
    changed_at = CASE WHEN f.checksum = excluded.checksum THEN greatest(f.changed_at, excluded.changed_at)
      ELSE excluded.changed_at END,
    checksum = excluded.checksum, seen_at = now()
  RETURNING generation, regranted_to IS NULL AS "isDone"`

const RESTART = `
  UPDATE grants_in_force SET regranted_to = 0
  WHERE EXISTS (SELECT FROM person_groups s LEFT JOIN granted_access g ON g.user_id = s.user_id
    WHERE g.grants_checksum IS DISTINCT FROM $1)
  RETURNING generation`

// A report that lies ahead is of a clock that has been set back since.
const REDATE = "UPDATE grants_in_force SET seen_at = now() WHERE seen_at > now() + interval '1 minute'"

const REPORT = `
  UPDATE grants_in_force SET seen_at = now()
  WHERE checksum = $1 AND seen_at < now() - $2 * interval '0.5 milliseconds'`

/**
 * The grants in force that the people of $1 get, as `matching`; for the beginning of a statement. Joined as whole sets by
 * equality: without statistics, Postgres would compare each person with every grant.
 */
export const MATCHING_GRANTS = `
  seen AS MATERIALIZED (
    SELECT s.user_id, s.provider, s.tenant, unnest(s.groups) AS group_key
    FROM person_groups s WHERE s.user_id = ANY ($1::int[])
  ), matching AS MATERIALIZED (
    SELECT s.user_id, r.position, r.group_name, r.profiles, r.areas
    FROM seen s JOIN grant_rules r USING (provider, group_key) WHERE r.tenant IN ('', s.tenant)
  )`

const WRITE_RULES = `
  INSERT INTO grant_rules (position, provider, group_key, tenant, group_name, profiles, areas, place)
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS rule (position integer, provider text, group_key text, tenant text,
    group_name text, profiles text[], areas text[], place text)`

const MISSING_PROFILES = 'SELECT unnest($1::text[]) AS name EXCEPT SELECT name FROM profiles'
const CREATE_PROFILES = `INSERT INTO profiles (name) ${MISSING_PROFILES} ON CONFLICT DO NOTHING`
const CREATE_AREAS = `
  INSERT INTO areas (name)
  SELECT wanted FROM unnest($1::text[]) AS wanted
  WHERE NOT EXISTS (SELECT FROM areas a WHERE lower(a.name) = lower(wanted))
  ON CONFLICT DO NOTHING RETURNING id, name`
