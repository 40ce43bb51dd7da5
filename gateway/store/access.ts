// Changes a person's access, makes their older tokens stale or ends them, records who changed it, and keeps an Admin.
import type { EntityManager } from 'typeorm'
import { BadRequest, Conflict, LastAdmin } from '../errors.ts'
import { fitsToken } from '../tokens/access-token.ts'
import { storedName } from '../values/names.ts'
import { raiseVersions } from './access-changes.ts'
import { type Actor, type AuditEntry, appendAudit } from './audit-entry.ts'
import type { Database } from './database.ts'
import { type AccessNames, getPerson, type StoredPerson } from './people.ts'
import { lockPeople, query } from './query.ts'
import { writeAs } from './write-as.ts'

/** Throws LastAdmin if this person is the only enabled Admin by assignment. Requires the access lock. */
const refuseLastAdmin = async (manager: EntityManager, id: number): Promise<void> => {
  const admins = await query<{ id: number }>(manager, ENABLED_ADMINS)
  if (admins.length === 1 && admins[0]?.id === id) throw new LastAdmin()
}

const ENABLED_ADMINS = `
  SELECT u.id FROM users u
  JOIN user_profiles up ON up.user_id = u.id JOIN profiles p ON p.id = up.profile_id
  WHERE p.name = 'Admin' AND NOT u.disabled AND u.provider <> 'client' LIMIT 2`

/**
 * Assigns a person exactly these profiles and areas, by name, in addition to what their groups are granted. Earlier
 * tokens become stale, unless nothing changes.
 * Throws NotFound, BadRequest (unknown or repeated names, a main area that is not among the areas), LastAdmin.
 * @param profiles those that can be assigned; undefined: all in the database
 * @param isCurrent whether an access version is the one that the caller has seen; otherwise Conflict is thrown
 */
export const setAccess = (
  database: Database,
  actor: Actor,
  id: number,
  access: AccessNames,
  profiles?: readonly string[],
  isCurrent?: (version: number) => boolean
): Promise<StoredPerson> =>
  writeAs(database, actor, async manager => {
    await lockPeople(manager, [id])
    const person = await getPerson(manager, id)
    if (isCurrent?.(person.version) === false)
      throw new Conflict({ reason: 'changed-meanwhile', message: 'The access has changed since; read it again' })
    const entry = await changeAccess(manager, actor, person, access, profiles)
    if (entry === undefined) return person
    await raiseVersions(manager, [id])
    await appendAudit(manager, entry)
    return getPerson(manager, id)
  })

/**
 * The same within a transaction that holds the access lock and has locked the person. Returns the entry for the audit log;
 * undefined if nothing has changed. The caller raises the version.
 */
export const changeAccess = async (
  manager: EntityManager,
  actor: Actor,
  person: StoredPerson,
  access: AccessNames,
  profiles?: readonly string[]
): Promise<AuditEntry | undefined> => {
  const { id } = person.user
  const before = person.assigned
  const losesAdmin = before.profiles.includes('Admin') && !access.profiles.includes('Admin')
  if (losesAdmin && !person.disabled) await refuseLastAdmin(manager, id)
  // A profile that no file names any more can be kept or removed, but not assigned.
  await replaceAccess(manager, person, access, profiles && [...profiles, ...before.profiles])
  const { assigned: after } = await getPerson(manager, id)
  if (JSON.stringify(before) === JSON.stringify(after)) return undefined
  return { actor, action: 'access.set', target: `user:${id}`, before, after }
}

/** Ends every token of the person; they may log in again. Throws NotFound. */
export const revokePerson = (database: Database, actor: Actor, id: number): Promise<void> =>
  writeAs(database, actor, async manager => {
    await getPerson(manager, id)
    await raiseVersions(manager, [id], true)
    await appendAudit(manager, { actor, action: 'person.revoke', target: `user:${id}` })
  })

/**
 * Disabling ends all tokens of the person and prevents further logins; enabling lets them log in again, but earlier tokens
 * stay ended. Does nothing if already done. Throws NotFound, LastAdmin.
 */
export const setDisabled = (database: Database, actor: Actor, id: number, disabled: boolean): Promise<void> =>
  writeAs(database, actor, async manager => {
    const person = await getPerson(manager, id)
    if (person.disabled === disabled) return
    if (disabled && person.assigned.profiles.includes('Admin')) await refuseLastAdmin(manager, id)
    await query(manager, 'UPDATE users SET disabled = $2 WHERE id = $1', [id, disabled])
    if (disabled) await raiseVersions(manager, [id], true)
    const action = disabled ? 'person.disable' : 'person.enable'
    const [before, after] = [{ disabled: !disabled }, { disabled }]
    await appendAudit(manager, { actor, action, target: `user:${id}`, before, after })
  })

/** From where tokens of a service account may be used; empty: anywhere. */
interface AddressChange {
  readonly before: readonly string[]
  readonly after: readonly string[]
}

/** Gives an account exactly this access, within a transaction that holds the access lock. Throws BadRequest. */
export const replaceAccess = async (
  manager: EntityManager,
  person: StoredPerson,
  access: AccessNames,
  assignable?: readonly string[],
  addresses: AddressChange = { before: [], after: [] }
): Promise<void> => {
  const { profiles, areas, areaPrincipal } = access
  const known = await query<Named>(manager, 'SELECT id, name FROM profiles')
  const rows = known.filter(({ name }) => assignable?.includes(name) ?? true)
  const profileIds = idsOf('profile', profiles, rows)
  const areaIds = idsOf('area', areas, await query<Named>(manager, 'SELECT id, name FROM areas'))
  if (areas.length === 0 && areaPrincipal !== null)
    throw new BadRequest({ reason: 'main-area-without-areas', message: 'areaPrincipal must be null without areas' })
  const mainAreaId = areas.length === 0 ? null : areaIds[areas.indexOf(areaPrincipal ?? '')]
  if (mainAreaId === undefined)
    throw new BadRequest({ reason: 'main-area-not-among-areas', message: 'areaPrincipal must be one of areas' })
  refuseTooLong(person, access, addresses)
  const userId = person.user.id
  await query(manager, 'DELETE FROM user_profiles WHERE user_id = $1', [userId])
  await query(manager, 'DELETE FROM user_areas WHERE user_id = $1', [userId])
  await query(manager, 'INSERT INTO user_profiles SELECT $1, unnest($2::int[])', [userId, profileIds])
  await query(manager, 'INSERT INTO user_areas SELECT $1, unnest($2::int[])', [userId, areaIds])
  await query(manager, 'UPDATE users SET main_area_id = $2 WHERE id = $1', [userId, mainAreaId])
}

/**
 * A token contains all of a person's access, and the gateway refuses a token beyond its maximum length. Access that already
 * exceeds it, through grants to groups or a renamed area, can still be reduced.
 */
const refuseTooLong = (
  { user, assigned }: StoredPerson,
  { profiles, areas, areaPrincipal }: AccessNames,
  { before, after }: AddressChange
): void => {
  const granted = (kind: 'profiles' | 'areas') => user[kind].filter(name => !assigned[kind].includes(name))
  const next = {
    ...user,
    profiles: [...profiles, ...granted('profiles')],
    areas: [...areas, ...granted('areas')],
    areaPrincipal: areaPrincipal ?? user.areaPrincipal
  }
  if (fitsToken(next, { addresses: after })) return
  const adds = (kind: 'profiles' | 'areas') => next[kind].some(name => !user[kind].includes(name))
  const addsAddress = after.some(address => !before.includes(address))
  if (!fitsToken(user, { addresses: before }) && !adds('profiles') && !adds('areas') && !addsAddress) return
  const what = after.length === 0 ? 'areas and profiles' : 'areas, profiles and addresses'
  throw new BadRequest({ reason: 'token-too-long', message: `The ${what} are too many for a token` })
}

interface Named {
  id: number
  name: string
}

const idsOf = (kind: 'profile' | 'area', names: readonly string[], rows: readonly Named[]): number[] => {
  const known = new Map(rows.map(row => [row.name, row.id]))
  const ids = names.map((name, index) => {
    const id = known.get(storedName(name, known))
    if (id === undefined)
      throw new BadRequest({ reason: `unknown-${kind}`, message: `${kind}s/${index} is not a known ${kind}` })
    return id
  })
  if (new Set(ids).size !== ids.length) throw new BadRequest({ reason: 'repeated-name' })
  return ids
}
