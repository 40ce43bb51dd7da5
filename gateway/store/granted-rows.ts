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

/** All access of a person, assigned and granted, as the public API shows it. */
interface Effective {
  profiles: string[]
  areas: string[]
  areaPrincipal: string
}

export interface GrantedChange {
  readonly id: number
  readonly before: Effective
  readonly after: Effective
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
  await writeDifference(manager, PROFILES, changes, row => row.grantedProfiles, 'profiles')
  await writeDifference(manager, AREAS, changes, row => row.grantedAreas, 'areas')
  const mains = changes.filter(({ row, next }) => row.grantedMain !== next.main)
  await query(manager, MAIN_AREAS, [mains.map(({ row }) => row.id), mains.map(({ next }) => next.main)])
  return changes.map(({ row, next }) => {
    const granted = { profiles: row.grantedProfiles, areas: row.grantedAreas, main: row.grantedMain }
    return { id: row.id, before: effective(known, row, granted), after: effective(known, row, next) }
  })
}

/** Ids of a person's profiles and areas. */
interface HeldRow {
  id: number
  assignedProfiles: number[]
  assignedAreas: number[]
  assignedMain: number | null
  grantedProfiles: number[]
  grantedAreas: number[]
  grantedMain: number | null
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
  const profileIds = [...new Set(rows.flatMap(row => [...row.assignedProfiles, ...row.grantedProfiles]))]
  const areaIds = [
    ...new Set(
      rows.flatMap(row => [
        ...row.assignedAreas,
        ...row.grantedAreas,
        ...[row.assignedMain, row.grantedMain].filter(id => id !== null)
      ])
    )
  ]
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

const effective = (known: KnownNames, row: HeldRow, granted: Ids): Effective => {
  const named = (names: ReadonlyMap<number, string>, ...ids: (readonly number[])[]) => {
    const wanted = new Set(ids.flat())
    return [...names].flatMap(([id, name]) => (wanted.has(id) ? [name] : []))
  }
  const main = row.assignedMain ?? granted.main
  return {
    profiles: named(known.profiles, row.assignedProfiles, granted.profiles),
    areas: named(known.areas, row.assignedAreas, granted.areas),
    areaPrincipal: (main === null ? undefined : known.areas.get(main)) ?? ''
  }
}

interface Statements {
  readonly add: string
  readonly remove: string
}

/** Only rows that differ are touched, so a changed grant does not affect what the others give. */
const writeDifference = async (
  manager: EntityManager,
  { add, remove }: Statements,
  changes: readonly { readonly row: HeldRow; readonly next: Ids }[],
  heldIn: (row: HeldRow) => readonly number[],
  what: 'profiles' | 'areas'
): Promise<void> => {
  const added = createPairs()
  const removed = createPairs()
  for (const { row, next } of changes) {
    const [held, wanted] = [new Set(heldIn(row)), new Set(next[what])]
    for (const id of wanted) if (!held.has(id)) added.push(row.id, id)
    for (const id of held) if (!wanted.has(id)) removed.push(row.id, id)
  }
  if (removed.people.length > 0)
    await query(manager, remove, [removed.people, removed.ids, [...new Set(removed.people)]])
  if (added.people.length > 0) await query(manager, add, [added.people, added.ids])
}

const createPairs = () => {
  const people: number[] = []
  const ids: number[] = []
  const push = (person: number, id: number): void => {
    people.push(person)
    ids.push(id)
  }
  return { people, ids, push }
}

const HELD = `
  SELECT u.id, u.main_area_id AS "assignedMain",
    (SELECT g.main_area_id FROM granted_access g WHERE g.user_id = u.id) AS "grantedMain",
    ARRAY(SELECT p.profile_id FROM user_profiles p WHERE p.user_id = u.id) AS "assignedProfiles",
    ARRAY(SELECT a.area_id FROM user_areas a WHERE a.user_id = u.id) AS "assignedAreas",
    ARRAY(SELECT p.profile_id FROM granted_profiles p WHERE p.user_id = u.id) AS "grantedProfiles",
    ARRAY(SELECT a.area_id FROM granted_areas a WHERE a.user_id = u.id) AS "grantedAreas"
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
const PROFILES: Statements = {
  add: `INSERT INTO granted_profiles (user_id, profile_id) SELECT user_id, id FROM ${PAIRS} ON CONFLICT DO NOTHING`,
  remove: `
    DELETE FROM granted_profiles g USING ${PAIRS}
    WHERE g.user_id = ANY($3::int[]) AND g.user_id = pair.user_id AND g.profile_id = pair.id`
}
const AREAS: Statements = {
  add: `INSERT INTO granted_areas (user_id, area_id) SELECT user_id, id FROM ${PAIRS} ON CONFLICT DO NOTHING`,
  remove: `
    DELETE FROM granted_areas g USING ${PAIRS}
    WHERE g.user_id = ANY($3::int[]) AND g.user_id = pair.user_id AND g.area_id = pair.id`
}
const MAIN_AREAS = `
  INSERT INTO granted_access (user_id, grants_checksum, main_area_id) SELECT user_id, '', id FROM ${PAIRS}
  ON CONFLICT (user_id) DO UPDATE SET main_area_id = excluded.main_area_id`
