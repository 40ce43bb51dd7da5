// Grants exactly these profiles and areas to many people at once, and returns their access before and after.
import type { EntityManager } from 'typeorm'
import { query } from './query.ts'

export interface GrantedNames {
  readonly id: number
  readonly profiles: readonly string[]
  readonly areas: readonly string[]
  /** `''`: none. */
  readonly main: string
}

export interface GrantedChange {
  readonly id: number
  readonly before: ReturnType<typeof effective>
  readonly after: ReturnType<typeof effective>
}

/** Names missing in the database are created. */
export const replaceGranted = async (
  manager: EntityManager,
  people: readonly GrantedNames[]
): Promise<GrantedChange[]> => {
  if (people.length === 0) return []
  const rows = await query<HeldRow>(manager, HELD, [people.map(({ id }) => id)])
  const known = await findNames(manager, people, rows)
  const held = new Map(rows.map(row => [row.id, row]))
  const changes = people.flatMap(person => {
    const row = held.get(person.id)
    return row === undefined ? [] : [{ row, next: idsOf(known, person) }]
  })
  await writeDifference(manager, changes, 'profiles')
  await writeDifference(manager, changes, 'areas')
  const mains = changes.filter(({ row, next }) => row.granted.main !== next.main)
  await query(manager, MAIN_AREAS, [mains.map(({ row }) => row.id), mains.map(({ next }) => next.main)])
  return changes.map(({ row: { id, assigned, granted }, next }) => ({
    id,
    before: effective(known, assigned, granted),
    after: effective(known, assigned, next)
  }))
}

/** A person's access in ids. */
interface HeldRow {
  readonly id: number
  readonly assigned: Ids
  readonly granted: Ids
}

interface Ids {
  readonly profiles: readonly number[]
  readonly areas: readonly number[]
  readonly main: number | null
}

/** Names by id, in the order in which lists show them. */
interface KnownNames {
  readonly profiles: ReadonlyMap<number, string>
  readonly areas: ReadonlyMap<number, string>
  /** By the name in a grant, ignoring case. */
  readonly profileIds: ReadonlyMap<string, number>
  readonly areaIds: ReadonlyMap<string, number>
}

const findNames = async (
  manager: EntityManager,
  people: readonly GrantedNames[],
  rows: readonly HeldRow[]
): Promise<KnownNames> => {
  const profiles = [...new Set(people.flatMap(person => person.profiles))]
  const areas = [...new Set(people.flatMap(person => person.areas))]
  await query(manager, CREATE_PROFILES, [profiles])
  await query(manager, CREATE_AREAS, [areas])
  const held = rows.flatMap(({ assigned, granted }) => [assigned, granted])
  const profileIds = [...new Set(held.flatMap(ids => ids.profiles))]
  const areaIds = [...new Set(held.flatMap(ids => [...ids.areas, ...(ids.main === null ? [] : [ids.main])]))]
  const foundProfiles = await query<NamedRow>(manager, FIND_PROFILES, [profileIds, profiles])
  const foundAreas = await query<NamedRow>(manager, FIND_AREAS, [areaIds, areas])
  return {
    profiles: new Map(foundProfiles.map(({ id, name }) => [id, name])),
    areas: new Map(foundAreas.map(({ id, name }) => [id, name])),
    profileIds: new Map(foundProfiles.map(({ id, name }) => [name, id])),
    areaIds: new Map(foundAreas.flatMap(({ id, wanted }) => (wanted === null ? [] : [[wanted, id]])))
  }
}

interface NamedRow {
  id: number
  name: string
  /** As written in a grant. */
  wanted: string | null
}

const idsOf = (known: KnownNames, { profiles, areas, main }: GrantedNames): Ids => {
  const found = (ids: ReadonlyMap<string, number>, names: readonly string[]) => [
    ...new Set(names.flatMap(name => ids.get(name) ?? []))
  ]
  return {
    profiles: found(known.profileIds, profiles),
    areas: found(known.areaIds, areas),
    main: known.areaIds.get(main) ?? null
  }
}

/** All access of a person, assigned and granted, as the public API shows it. */
const effective = (known: KnownNames, assigned: Ids, granted: Ids) => {
  const named = (names: ReadonlyMap<number, string>, ...ids: (readonly number[])[]) => {
    const wanted = new Set(ids.flat())
    return [...names].flatMap(([id, name]) => (wanted.has(id) ? [name] : []))
  }
  const main = assigned.main ?? granted.main
  return {
    profiles: named(known.profiles, assigned.profiles, granted.profiles),
    areas: named(known.areas, assigned.areas, granted.areas),
    areaPrincipal: (main === null ? undefined : known.areas.get(main)) ?? ''
  }
}

/** Only rows that differ are touched, so a changed grant does not affect what the others give. */
const writeDifference = async (
  manager: EntityManager,
  changes: readonly { readonly row: HeldRow; readonly next: Ids }[],
  what: 'profiles' | 'areas'
): Promise<void> => {
  const added = changes.flatMap(({ row, next }) => pairs(row.id, next[what], row.granted[what]))
  const removed = changes.flatMap(({ row, next }) => pairs(row.id, row.granted[what], next[what]))
  const columns = (rows: readonly Pair[]) => [rows.map(([person]) => person), rows.map(([, id]) => id)]
  const people = [...new Set(removed.map(([person]) => person))]
  if (removed.length > 0) await query(manager, STATEMENTS[what].remove, [...columns(removed), people])
  if (added.length > 0) await query(manager, STATEMENTS[what].add, columns(added))
}

type Pair = readonly [person: number, id: number]

const pairs = (person: number, ids: readonly number[], except: readonly number[]): Pair[] => {
  const kept = new Set(except)
  return [...new Set(ids)].filter(id => !kept.has(id)).map(id => [person, id])
}

const HELD = `
  SELECT u.id,
    jsonb_build_object('main', u.main_area_id,
      'profiles', ARRAY(SELECT p.profile_id FROM user_profiles p WHERE p.user_id = u.id),
      'areas', ARRAY(SELECT a.area_id FROM user_areas a WHERE a.user_id = u.id)) AS assigned,
    jsonb_build_object('main', (SELECT g.main_area_id FROM granted_access g WHERE g.user_id = u.id),
      'profiles', ARRAY(SELECT p.profile_id FROM granted_profiles p WHERE p.user_id = u.id),
      'areas', ARRAY(SELECT a.area_id FROM granted_areas a WHERE a.user_id = u.id)) AS granted
  FROM users u WHERE u.id = ANY($1::int[]) ORDER BY u.id`

export const CREATE_PROFILES = `
  INSERT INTO profiles (name) SELECT unnest($1::text[]) EXCEPT SELECT name FROM profiles ON CONFLICT DO NOTHING`
export const CREATE_AREAS = `
  INSERT INTO areas (name)
  SELECT wanted FROM unnest($1::text[]) AS wanted
  WHERE NOT EXISTS (SELECT FROM areas a WHERE lower(a.name) = lower(wanted))
  ON CONFLICT DO NOTHING RETURNING id, name`
const FIND_PROFILES = `
  SELECT id, name, NULL AS wanted FROM profiles WHERE id = ANY($1::int[]) OR name = ANY($2::text[]) ORDER BY id`
// Area names are compared ignoring case.
const FIND_AREAS = `
  SELECT a.id, a.name, w.wanted FROM areas a LEFT JOIN unnest($2::text[]) AS w (wanted) ON lower(w.wanted) = lower(a.name)
  WHERE a.id = ANY($1::int[]) OR w.wanted IS NOT NULL ORDER BY lower(a.name)`

const PAIRS = 'unnest($1::int[], $2::int[]) AS pair (user_id, id)'
const statementsOf = (table: string, column: string) => ({
  add: `INSERT INTO ${table} (user_id, ${column}) SELECT user_id, id FROM ${PAIRS} ON CONFLICT DO NOTHING`,
  remove: `
    DELETE FROM ${table} g USING ${PAIRS}
    WHERE g.user_id = ANY($3::int[]) AND g.user_id = pair.user_id AND g.${column} = pair.id`
})
const STATEMENTS = {
  profiles: statementsOf('granted_profiles', 'profile_id'),
  areas: statementsOf('granted_areas', 'area_id')
}
const MAIN_AREAS = `
  INSERT INTO granted_access (user_id, grants_checksum, main_area_id) SELECT user_id, '', id FROM ${PAIRS}
  ON CONFLICT (user_id) DO UPDATE SET main_area_id = excluded.main_area_id`
