// Lists what each group grants to a person, and to how many people.
import type { EntityManager } from 'typeorm'
import { type Grants, groupKey, type SeenGroups } from '../routes/grants.ts'
import type { Database } from './database.ts'
import { query } from './query.ts'

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

/** For several people, by id. */
export const grantedTo = async (
  manager: EntityManager,
  ids: readonly number[],
  grants: Grants
): Promise<Map<number, GrantedParts>> => {
  const rows = await query<SeenGroups & { id: number; cutOff: boolean }>(manager, SEEN, [ids])
  const found = new Map<number, GrantedParts>()
  for (const [id, seen] of Map.groupBy(rows, row => row.id)) {
    const granted = grants.of(seen).map(({ group, profiles, areas }) => ({ group, profiles, areas }))
    found.set(id, { granted, groupsCutOff: seen.some(({ cutOff }) => cutOff) })
  }
  return found
}

/** In the order of the files; and the number of people whose list of groups was truncated. */
export const listGrants = (database: Database, { list }: Grants) =>
  database.read(async manager => {
    const keys = list.map(({ provider, group }) => groupKey(provider, group) ?? '')
    const columns = [list.map(({ provider }) => provider), keys, list.map(({ tenant = '' }) => tenant)]
    const counts = await query<{ people: number }>(manager, COUNTS, columns)
    const [cutOff] = await query<{ people: number }>(manager, CUT_OFF)
    const items = list.map(({ provider, group, tenant = '', profiles, areas, place }, index) => ({
      group,
      provider,
      /** `''`: any. */
      tenant,
      profiles,
      areas,
      /** `file:line:column`. */
      place: `${place.file}:${place.line}:${place.column}`,
      /** Number of people in the group, as last seen. */
      people: counts[index]?.people ?? 0
    }))
    return { items, peopleCutOff: cutOff?.people ?? 0 }
  })

const SEEN = `
  SELECT user_id AS id, provider, tenant, groups, cut_off AS "cutOff" FROM person_groups
  WHERE user_id = ANY($1::int[])`

const COUNTS = `
  SELECT (SELECT count(*)::int FROM person_groups s
    WHERE s.provider = g.provider AND s.groups @> ARRAY[g.key] AND (g.tenant = '' OR g.tenant = s.tenant)) AS people
  FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS g (provider, key, tenant, n) ORDER BY g.n`

const CUT_OFF = 'SELECT count(*)::int AS people FROM person_groups WHERE cut_off'
