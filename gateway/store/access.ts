// Changes a person's access, makes their older tokens stale or ends them, and records who changed it.
import type { EntityManager } from 'typeorm'
import { BadRequest, Conflict } from '../errors.ts'
import { raiseVersions } from './access-changes.ts'
import { type AccessNames, lockAccess, refuseLastAdmin } from './access-state.ts'
import { type Actor, appendAudit } from './audit-entry.ts'
import type { Database } from './database.ts'
import { Area, Person, PersonArea, PersonProfile, ProfileTable } from './entities.ts'
import { getPerson, type StoredPerson } from './people.ts'

/**
 * Assigns a person exactly these profiles and areas, by name, in addition to what their groups are granted. Earlier
 * tokens become stale, unless nothing changes.
 * Throws NotFound, BadRequest (unknown or repeated names, a main area that is not among the areas), LastAdmin.
 */
export const setAccess = (
  database: Database,
  actor: Actor,
  id: number,
  access: AccessNames,
  { profiles, isCurrent }: SetAccessOptions = {}
): Promise<StoredPerson> =>
  database.write(async manager => {
    await lockAccess(manager)
    const person = await getPerson(manager, id)
    if (isCurrent?.(person.version) === false) throw new Conflict({ reason: 'changed-meanwhile' })
    return changeAccess(manager, actor, person, access, profiles)
  })

export interface SetAccessOptions {
  /** Profiles that can be assigned; undefined: all in the database. */
  profiles?: readonly string[] | undefined
  /** Whether an access version is the one that the caller has seen; otherwise Conflict is thrown. */
  isCurrent?: ((version: number) => boolean) | undefined
}

/** The same within a transaction that holds the access lock. */
export const changeAccess = async (
  manager: EntityManager,
  actor: Actor,
  person: StoredPerson,
  access: AccessNames,
  profiles?: readonly string[]
): Promise<StoredPerson> => {
  const { id } = person.user
  const before = person.assigned
  const losesAdmin = before.profiles.includes('Admin') && !access.profiles.includes('Admin')
  if (losesAdmin && !person.disabled) await refuseLastAdmin(manager, id)
  // A profile that no file names any more can be kept or removed, but not assigned.
  await replaceAccess(manager, id, access, profiles && [...profiles, ...before.profiles])
  const { assigned: after } = await getPerson(manager, id)
  if (JSON.stringify(before) === JSON.stringify(after)) return person
  await raiseVersions(manager, [id])
  await appendAudit(manager, { actor, action: 'access.set', target: `user:${id}`, before, after })
  return getPerson(manager, id)
}

/** Ends every token of the person; they may log in again. Throws NotFound. */
export const revokePerson = (database: Database, actor: Actor, id: number): Promise<void> =>
  database.write(async manager => {
    await lockAccess(manager)
    await getPerson(manager, id)
    await raiseVersions(manager, [id], true)
    await appendAudit(manager, { actor, action: 'person.revoke', target: `user:${id}` })
  })

/** Ends all tokens of the person and prevents further logins. Does nothing if already disabled. Throws LastAdmin. */
export const disablePerson = (database: Database, actor: Actor, id: number): Promise<void> =>
  database.write(async manager => {
    await lockAccess(manager)
    const person = await getPerson(manager, id)
    if (person.disabled) return
    if (person.assigned.profiles.includes('Admin')) await refuseLastAdmin(manager, id)
    await manager.update(Person, { id }, { disabled: true })
    await raiseVersions(manager, [id], true)
    await appendAudit(manager, stateEntry(actor, 'person.disable', id, true))
  })

/** Lets the person log in again; earlier tokens stay ended. */
export const enablePerson = (database: Database, actor: Actor, id: number): Promise<void> =>
  database.write(async manager => {
    await lockAccess(manager)
    const person = await getPerson(manager, id)
    if (!person.disabled) return
    await manager.update(Person, { id }, { disabled: false })
    await appendAudit(manager, stateEntry(actor, 'person.enable', id, false))
  })

const stateEntry = (actor: Actor, action: string, id: number, disabled: boolean) => ({
  actor,
  action,
  target: `user:${id}`,
  before: { disabled: !disabled },
  after: { disabled }
})

interface AccessIds {
  profileIds: number[]
  areaIds: number[]
  mainAreaId: number | null
}

const resolve = async (
  manager: EntityManager,
  access: AccessNames,
  known: readonly string[] | undefined
): Promise<AccessIds> => {
  const { profiles, areas, areaPrincipal } = access
  const rows = (await manager.find(ProfileTable)).filter(({ name }) => known?.includes(name) ?? true)
  const profileIds = idsOf('profile', profiles, rows)
  const areaIds = idsOf('area', areas, await manager.find(Area))
  if (areas.length === 0 && areaPrincipal !== null) throw new BadRequest({ reason: 'main-area-without-areas' })
  if (areas.length === 0) return { profileIds, areaIds, mainAreaId: null }
  const main = areaIds[areas.indexOf(areaPrincipal ?? '')]
  if (main === undefined) throw new BadRequest({ reason: 'main-area-not-among-areas' })
  return { profileIds, areaIds, mainAreaId: main }
}

const idsOf = (
  kind: 'profile' | 'area',
  names: readonly string[],
  rows: readonly { id: number; name: string }[]
): number[] => {
  if (new Set(names).size !== names.length) throw new BadRequest({ reason: 'repeated-name' })
  const ids = new Map(rows.map(row => [row.name, row.id]))
  return names.map((name, index) => {
    const id = ids.get(name)
    if (id === undefined)
      throw new BadRequest({ reason: `unknown-${kind}`, message: `${kind}s/${index} is not a known ${kind}` })
    return id
  })
}

/** Gives an account exactly this access, within a transaction that holds the access lock. Throws BadRequest. */
export const replaceAccess = async (
  manager: EntityManager,
  id: number,
  access: AccessNames,
  profiles?: readonly string[]
): Promise<void> => replace(manager, id, await resolve(manager, access, profiles))

const replace = async (manager: EntityManager, userId: number, { profileIds, areaIds, mainAreaId }: AccessIds) => {
  await manager.delete(PersonProfile, { userId })
  await manager.delete(PersonArea, { userId })
  if (profileIds.length > 0)
    await manager.insert(
      PersonProfile,
      profileIds.map(profileId => ({ userId, profileId }))
    )
  if (areaIds.length > 0)
    await manager.insert(
      PersonArea,
      areaIds.map(areaId => ({ userId, areaId }))
    )
  await manager.update(Person, { id: userId }, { mainAreaId })
}
