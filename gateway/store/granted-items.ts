// Lists what each group grants to a person, and to how many people.
import type { EntityManager } from 'typeorm'
import type { Provider } from '../identity.ts'
import { type Grant, groupKey } from '../routes/grants.ts'
import { type Database, readRows } from './database.ts'
import { MATCHING_GRANTS } from './grants-in-force.ts'
import { type Bounds, query, readPage } from './query.ts'

/** What one grant gives. */
interface GrantedPart {
  /** The DN of the group, or the value of the claim. */
  group: string
  profiles: readonly string[]
  areas: readonly string[]
}

export interface GrantedParts {
  granted: GrantedPart[]
  /** The provider truncated its list of groups, so nothing is granted. */
  groupsCutOff: boolean
}

/** For several people, by id; without those whose groups are unknown. */
export const grantedTo = async (manager: EntityManager, ids: readonly number[]): Promise<Map<number, GrantedParts>> => {
  const rows = await query<GrantedParts & { id: number }>(manager, GRANTED, [ids])
  return new Map(rows.map(({ id, ...parts }) => [id, parts]))
}

interface GrantItem extends GrantedPart {
  readonly provider: Provider
  /** `''`: any. */
  readonly tenant: string
  /** `file:line:column`. */
  readonly place: string
  /** Number of people in the group, as last seen. */
  readonly people: number
}

/** The grants in force, in the order of the files; and the number of people whose list of groups was truncated. */
export const listGrants = (database: Database, bounds: Bounds) =>
  database.read(async manager => {
    const page = await readPage<GrantItem>(manager, bounds, 'FROM grant_rules', inForce)
    const [cutOff] = await query<{ people: number }>(manager, CUT_OFF)
    return { ...page, peopleCutOff: cutOff?.people ?? 0 }
  })

/** Groups that are counted by one statement: each may have thousands of people. */
const PORTION = 50

/** The number of people in the group of each of these grants, as last seen. */
export const countPeople = async (database: Database, list: readonly Grant[]): Promise<number[]> => {
  const counts: number[] = []
  for (let at = 0; at < list.length; at += PORTION) {
    const some = list.slice(at, at + PORTION)
    const keys = some.map(({ provider, group }) => groupKey(provider, group) ?? '')
    const columns = [some.map(({ provider }) => provider), keys, some.map(({ tenant = '' }) => tenant)]
    const rows = await readRows<{ people: number }>(database, COUNTS, columns)
    counts.push(...rows.map(({ people }) => people))
  }
  return counts
}

const GRANTED = `
  WITH ${MATCHING_GRANTS}
  SELECT s.user_id AS id, bool_or(s.cut_off) AS "groupsCutOff",
    coalesce((SELECT jsonb_agg(
        jsonb_build_object('group', m.group_name, 'profiles', m.profiles, 'areas', m.areas) ORDER BY m.position)
      FROM matching m WHERE m.user_id = s.user_id), '[]') AS granted
  FROM person_groups s WHERE s.user_id = ANY ($1::int[]) GROUP BY s.user_id`

/** @param rule has the columns provider, group_key and tenant */
const peopleIn = (rule: string) => `
  (SELECT count(*)::int FROM person_groups s WHERE s.provider = ${rule}.provider
    AND s.groups @> ARRAY[${rule}.group_key] AND ${rule}.tenant IN ('', s.tenant)) AS people`

// The people of the page alone are counted.
const inForce = (window: string) => `
  SELECT r.group_name AS "group", r.provider, r.tenant, r.profiles, r.areas, r.place, ${peopleIn('r')}
  FROM (SELECT * FROM grant_rules ORDER BY position ${window}) AS r ORDER BY r.position`

const COUNTS = `
  SELECT ${peopleIn('g')}
  FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS g (provider, group_key, tenant, n) ORDER BY g.n`

const CUT_OFF = 'SELECT count(*)::int AS people FROM person_groups WHERE cut_off'
