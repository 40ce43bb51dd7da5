// People, their access and their areas are one object, bound to one database.
import { type Grants, NO_GRANTS } from '../routes/grants.ts'
import { disablePerson, enablePerson, revokePerson, setAccess } from './access.ts'
import type { AccessNames } from './access-state.ts'
import { createArea, deleteArea, listAreas, listProfiles, renameArea } from './areas.ts'
import type { Actor } from './audit-entry.ts'
import type { Database } from './database.ts'
import { applyGroupsOf, type ProviderGroups } from './granted-access.ts'
import { findByUsername, findPerson, listPeople, type PeopleQuery } from './people.ts'
import { type ConfirmedPerson, syncPerson } from './sync-person.ts'

export type { AccessNames } from './access-state.ts'
export type { Actor } from './audit-entry.ts'
export type { PeopleQuery, PersonItem, StoredPerson } from './people.ts'
export type { ConfirmedPerson, SyncedPerson } from './sync-person.ts'

export type Users = ReturnType<typeof createUsers>

/** Every change is one transaction with its audit entry; see the functions for what they promise and throw. */
/** @param grants those in use, asked for whenever they matter. */
export const createUsers = (database: Database, grants: () => Grants = () => NO_GRANTS) => ({
  syncPerson: (confirmed: ConfirmedPerson) => syncPerson(database, confirmed, grants),
  /** What a provider says about the groups of a person who is not logging in. False when there is no such person. */
  applyGroups: (id: number, seen: ProviderGroups) => applyGroupsOf(database, id, seen, grants),
  /** Undefined when there is no such person. */
  loadPerson: (id: number) => database.read(manager => findPerson(manager, id)),
  findByUsername: (username: string) => findByUsername(database, username),
  listPeople: (filter?: PeopleQuery) => listPeople(database, filter),
  setAccess: (actor: Actor, id: number, access: AccessNames) => setAccess(database, actor, id, access),
  revokePerson: (actor: Actor, id: number) => revokePerson(database, actor, id),
  disablePerson: (actor: Actor, id: number) => disablePerson(database, actor, id),
  enablePerson: (actor: Actor, id: number) => enablePerson(database, actor, id),
  listAreas: (bounds?: { page?: number; pageSize?: number }) => listAreas(database, bounds),
  createArea: (actor: Actor, name: string) => createArea(database, actor, name),
  renameArea: (actor: Actor, id: number, name: string) => renameArea(database, actor, id, name),
  deleteArea: (actor: Actor, id: number) => deleteArea(database, actor, id),
  listProfiles: () => listProfiles(database)
})
