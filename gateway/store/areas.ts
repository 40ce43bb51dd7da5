// Creates, renames and deletes areas; people who have them keep consistent access and get new tokens.
import type { EntityManager } from 'typeorm'
import { Conflict, NotFound } from '../errors.ts'
import { areaName } from '../values/names.ts'
import { raiseVersions } from './access-changes.ts'
import { type Actor, appendAudit } from './audit-entry.ts'
import { type Database, readRows } from './database.ts'
import { databaseCode } from './database-errors.ts'
import { type Bounds, GRANTS_LOCK, lockPeople, type Page, query, readPage, requireName, rowId } from './query.ts'
import { writeAs } from './write-as.ts'

interface AreaRow {
  id: number
  name: string
}

/** Sorted by name. */
export const listAreas = (database: Database, bounds: Bounds = {}): Promise<Page<AreaRow>> =>
  database.read(manager =>
    readPage(manager, bounds, 'FROM areas', window => `SELECT id, name FROM areas ORDER BY lower(name), id ${window}`)
  )

/** Profiles that can be assigned, in the order Admin, Supervisor, Agente, then as defined; all if none are named. */
export const listProfiles = async (database: Database, known?: readonly string[]) => {
  const rows = await readRows<{ id: number; name: string }>(database, 'SELECT id, name FROM profiles ORDER BY id')
  return known === undefined ? rows : rows.filter(({ name }) => known.includes(name))
}

/** Throws BadRequest for an unusable name, Conflict for one that already exists in any case. */
export const createArea = (database: Database, actor: Actor, name: string): Promise<AreaRow> =>
  writeAs(database, actor, manager => addArea(manager, actor, name))

const addArea = async (manager: EntityManager, actor: Actor, name: string): Promise<AreaRow> => {
  const insert = 'INSERT INTO areas (name) VALUES ($1) RETURNING id, name'
  const [area] = await unlessTaken(query<AreaRow>(manager, insert, [requireName(areaName(name), 'bad-area-name')]))
  if (area === undefined) throw new Error('the new area was not stored')
  await appendAudit(manager, { actor, action: 'area.create', target: `area:${area.id}`, after: { name: area.name } })
  return area
}

/**
 * Resolves areas that exist in any case to their stored names, and creates the others. For a transaction that holds the
 * access lock. Where the database's locale is C, areas can differ in the case of a letter beyond ASCII: the exact name counts
 * first. Throws BadRequest for an unusable name.
 */
export const areasFor = async (manager: EntityManager, actor: Actor, wanted: readonly string[]): Promise<string[]> => {
  const rows = await query<{ name: string }>(manager, 'SELECT name FROM areas')
  const stored = new Map<string, string>()
  for (const { name } of rows) stored.set(name.toLowerCase(), name)
  for (const { name } of rows) stored.set(name, name)
  const names = new Set<string>()
  for (const area of wanted) {
    const given = area.trim().normalize('NFC')
    const known = stored.get(given) ?? stored.get(given.toLowerCase())
    const name = known ?? (await addArea(manager, actor, area)).name
    if (known === undefined) stored.set(name.toLowerCase(), name)
    names.add(name)
  }
  return [...names]
}

/** Everyone in the area gets another access version: a tenth of a millisecond each, during which they cannot log in. */
const MEMBERS_MS = 120_000

/** A new name changes the access of everyone in the area. Throws NotFound, BadRequest, Conflict. */
export const renameArea = async (database: Database, actor: Actor, id: number, name: string): Promise<AreaRow> => {
  const wanted = requireName(areaName(name), 'bad-area-name')
  return writeAs(
    database,
    actor,
    async manager => {
      const area = await getArea(manager, id)
      if (area.name === wanted) return area
      const people = await lockMembers(manager, id)
      await refuseGranted(manager, area)
      await unlessTaken(query(manager, 'UPDATE areas SET name = $2 WHERE id = $1', [id, wanted]))
      await raiseVersions(manager, people)
      await appendAudit(manager, {
        actor,
        action: 'area.rename',
        target: `area:${id}`,
        before: { name: area.name },
        after: { name: wanted },
        details: { people: people.length }
      })
      return { id, name: wanted }
    },
    MEMBERS_MS
  )
}

/** People whose main area it was get the first of their other areas as main area, or none. Throws NotFound, Conflict. */
export const deleteArea = (database: Database, actor: Actor, id: number): Promise<void> =>
  writeAs(
    database,
    actor,
    async manager => {
      const area = await getArea(manager, id)
      const people = await lockMembers(manager, id)
      await refuseGranted(manager, area)
      // Grants that return give the area again, but under another id.
      await query(manager, FORGET_GRANTED, [id])
      await query(manager, 'DELETE FROM user_areas WHERE area_id = $1', [id])
      await query(manager, NEXT_MAIN_AREA, [id])
      await query(manager, 'DELETE FROM areas WHERE id = $1', [id])
      await raiseVersions(manager, people)
      await appendAudit(manager, {
        actor,
        action: 'area.delete',
        target: `area:${id}`,
        before: { name: area.name },
        details: { people: people.length }
      })
    },
    MEMBERS_MS
  )

const NEXT_MAIN_AREA = `
  UPDATE users u SET main_area_id = (
    SELECT a.id FROM user_areas ua JOIN areas a ON a.id = ua.area_id
    WHERE ua.user_id = u.id ORDER BY lower(a.name) LIMIT 1
  ) WHERE u.main_area_id = $1`

const FORGET_GRANTED = `
  UPDATE granted_access SET grants_checksum = ''
  WHERE user_id IN (SELECT user_id FROM granted_areas WHERE area_id = $1)`

/** An area named by a grant would return with the next login of a member of that group. */
const refuseGranted = async (manager: EntityManager, { name }: AreaRow): Promise<void> => {
  await query(manager, 'SELECT pg_advisory_xact_lock_shared($1)', [GRANTS_LOCK])
  const granted = 'SELECT FROM grant_rules r, unnest(r.areas) AS area WHERE lower(area) = lower($1) LIMIT 1'
  if ((await query(manager, granted, [name])).length === 0) return
  throw new Conflict({
    reason: 'area-granted',
    message: 'The route files grant this area to groups: change them first'
  })
}

const getArea = async (manager: EntityManager, id: number): Promise<AreaRow> => {
  const [area] = await query<AreaRow>(manager, 'SELECT id, name FROM areas WHERE id = $1', [rowId(id)])
  if (area === undefined) throw new NotFound()
  return area
}

const lockMembers = async (manager: EntityManager, id: number): Promise<number[]> => {
  const members = `
    SELECT user_id AS id FROM user_areas WHERE area_id = $1 UNION SELECT user_id FROM granted_areas WHERE area_id = $1`
  const ids = (await query<{ id: number }>(manager, members, [id])).map(row => row.id)
  await lockPeople(manager, ids)
  return ids
}

/** A unique index refuses the name of another area, in any case (SQLSTATE 23505). */
const unlessTaken = <T>(work: Promise<T>): Promise<T> =>
  work.catch(error => {
    throw databaseCode(error) === '23505'
      ? new Conflict({ cause: error, reason: 'area-name-taken', message: 'There is already an area of this name' })
      : error
  })
