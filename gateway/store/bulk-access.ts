// Changes the assigned access of many people at once, each checked and audited separately.
import type { EntityManager } from 'typeorm'
import { BadRequest, GatewayError, TokenStale } from '../errors.ts'
import { storedName } from '../values/names.ts'
import { changeAccess } from './access.ts'
import { raiseVersions } from './access-changes.ts'
import { type Actor, type AuditEntry, appendAudits } from './audit-entry.ts'
import type { Database } from './database.ts'
import { DatabaseUnavailable } from './database-errors.ts'
import { type AccessNames, getPerson } from './people.ts'
import { lockPeople, query } from './query.ts'
import { writeAs } from './write-as.ts'

interface Names {
  add?: readonly string[]
  remove?: readonly string[]
}

export interface BulkChange {
  ids: readonly number[]
  profiles?: Names
  areas?: Names
  /** One of the areas that everyone then has; without it, main areas stay where possible. */
  areaPrincipal?: string
}

interface BulkOutcome {
  /** The people whose assigned access has changed. */
  changed: number
  failed: { id: number; code: string }[]
}

/** A transaction holds the access lock, so others wait for at most this many people. */
const PORTION = 50

/**
 * Adds and removes profiles and areas, by name. What is wrong for everyone (unknown or repeated names, the same name on
 * both sides) throws BadRequest; what is wrong for one person is reported with their id and changes nothing for them. Once people
 * have been checked, it throws neither because the database is away nor because the actor has lost the right to it: those who were not
 * reached are reported as failed.
 */
export const changeAccessOfMany = async (
  database: Database,
  actor: Actor,
  wish: BulkChange,
  profiles?: readonly string[]
): Promise<BulkOutcome> => {
  const change = await database.read(manager => checkNames(manager, wish, profiles))
  const outcome: BulkOutcome = { changed: 0, failed: [] }
  for (let at = 0; at < change.ids.length; at += PORTION) {
    const ids = change.ids.slice(at, at + PORTION)
    const part = await writeAs(database, actor, manager => changePortion(manager, actor, ids, change)).catch(codeOfEnd)
    if (typeof part === 'string') {
      outcome.failed.push(...change.ids.slice(at).map(id => ({ id, code: part })))
      break
    }
    outcome.changed += part.changed
    outcome.failed.push(...part.failed)
  }
  return outcome
}

/** The earlier portions stay as they are. */
const codeOfEnd = (error: unknown): string => {
  if (error instanceof DatabaseUnavailable || error instanceof TokenStale) return error.code
  throw error
}

const changePortion = async (manager: EntityManager, actor: Actor, ids: readonly number[], change: BulkChange) => {
  await lockPeople(manager, ids)
  const failed: BulkOutcome['failed'] = []
  const changed = new Map<number, AuditEntry>()
  for (const id of ids) {
    const result = await changeOne(manager, actor, id, change)
    if (typeof result === 'string') failed.push({ id, code: result })
    else if (result !== undefined) changed.set(id, result)
  }
  await raiseVersions(manager, [...changed.keys()])
  await appendAudits(manager, [...changed.values()])
  return { changed: changed.size, failed }
}

/** The entry for the audit log, undefined if nothing has changed, or the code of a refusal. */
const changeOne = async (
  manager: EntityManager,
  actor: Actor,
  id: number,
  change: BulkChange
): Promise<AuditEntry | string | undefined> => {
  try {
    const person = await getPerson(manager, id)
    const wanted = merged(person.assigned, change)
    // Checked before anything is written, because the transaction continues for the others.
    if (change.areaPrincipal !== undefined && !wanted.areas.includes(change.areaPrincipal)) return BadRequest.code
    return await changeAccess(manager, actor, person, wanted)
  } catch (error) {
    if (error instanceof GatewayError && error.statusCode < 500) return error.code
    throw error
  }
}

const merged = (assigned: AccessNames, { profiles, areas, areaPrincipal }: BulkChange): AccessNames => {
  const next = { profiles: apply(assigned.profiles, profiles), areas: apply(assigned.areas, areas) }
  const kept = [areaPrincipal, assigned.areaPrincipal, next.areas[0]].find(
    name => typeof name === 'string' && next.areas.includes(name)
  )
  return { ...next, areaPrincipal: kept ?? null }
}

const apply = (names: readonly string[], { add = [], remove = [] }: Names = {}): string[] => [
  ...new Set([...names.filter(name => !remove.includes(name)), ...add])
]

/** The change, with names as they are stored. */
const checkNames = async (
  manager: EntityManager,
  wish: BulkChange,
  known: readonly string[] | undefined
): Promise<BulkChange> => {
  const [profileRows, areaRows] = [await namesOf(manager, 'profiles'), await namesOf(manager, 'areas')]
  const [profiles, areas] = [storedNames(wish.profiles, profileRows), storedNames(wish.areas, areaRows)]
  const areaPrincipal = wish.areaPrincipal && storedName(wish.areaPrincipal, areaRows)
  const given = (name: string) => profileRows.has(name) && (known?.includes(name) ?? true)
  checkList('profiles/add', profiles.add, given)
  checkList('profiles/remove', profiles.remove, name => profileRows.has(name))
  checkList('areas/add', areas.add, name => areaRows.has(name))
  checkList('areas/remove', areas.remove, name => areaRows.has(name))
  if (areaPrincipal !== undefined && !areaRows.has(areaPrincipal))
    throw new BadRequest({ reason: 'unknown-name', message: 'body/areaPrincipal is not known' })
  for (const [list, { add, remove }] of Object.entries({ profiles, areas })) {
    if (add.some(name => remove.includes(name))) {
      throw new BadRequest({ reason: 'add-and-remove', message: `body/${list} adds and removes the same name` })
    }
  }
  return { ids: wish.ids, profiles, areas, ...(areaPrincipal === undefined ? {} : { areaPrincipal }) }
}

const storedNames = ({ add = [], remove = [] }: Names = {}, known: ReadonlySet<string>) => ({
  add: add.map(name => storedName(name, known)),
  remove: remove.map(name => storedName(name, known))
})

const namesOf = async (manager: EntityManager, table: 'profiles' | 'areas'): Promise<Set<string>> =>
  new Set((await query<{ name: string }>(manager, `SELECT name FROM ${table}`)).map(({ name }) => name))

const checkList = (where: string, names: readonly string[], isKnown: (name: string) => boolean): void => {
  const at = names.findIndex(name => !isKnown(name))
  if (at !== -1) throw new BadRequest({ reason: 'unknown-name', message: `body/${where}/${at} is not known` })
}
