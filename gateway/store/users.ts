// Binds the operations on people, their access and their areas to one database.
import { revokePerson, setAccess, setDisabled } from './access.ts'
import { areasFor, createArea, deleteArea, listAreas, listProfiles, renameArea } from './areas.ts'
import type { Actor } from './audit-entry.ts'
import { type BulkChange, changeAccessOfMany } from './bulk-access.ts'
import { bind, type Database, writeAccess } from './database.ts'
import { erasePerson } from './erase-person.ts'
import { applyGroupsOf } from './granted-access.ts'
import { listGrants } from './granted-items.ts'
import { relinkPerson } from './links.ts'
import { type AccessNames, findByUsername, findPeople, findPerson, listPeople, loadItem } from './people.ts'
import type { Bounds } from './query.ts'
import { type ConfirmedPerson, syncPerson } from './sync-person.ts'

export type { Actor } from './audit-entry.ts'
export type { BulkChange } from './bulk-access.ts'
export type { AccessNames, PeopleQuery, PersonItem, StoredPerson } from './people.ts'
export type { ConfirmedPerson, SyncedPerson } from './sync-person.ts'

export type Users = ReturnType<typeof createUsers>

/** What the users of a running gateway take from its route files. */
interface FromRouteFiles {
  /** Profiles that can be assigned. */
  profiles(): readonly string[]
  /** Resolves when the grants of the files are in force, or another instance has newer ones. */
  grantsLoaded(): Promise<void>
}

/**
 * Every change is one transaction with its audit entry; see the functions for what they promise and throw.
 * @param files without them, all profiles in the database can be assigned
 * @param lists the part of the database that long lists use
 */
export const createUsers = (database: Database, files?: FromRouteFiles, lists = database) => ({
  ...bind(database, {
    applyGroups: applyGroupsOf,
    areasFor: (on: Database, actor: Actor, names: readonly string[]) =>
      writeAccess(on, manager => areasFor(manager, actor, names)),
    createArea,
    deleteArea,
    erasePerson,
    findByUsername,
    listAreas,
    loadItem,
    relinkPerson,
    renameArea,
    revokePerson
  }),
  ...bind(lists, { listPeople }),
  async syncPerson(confirmed: ConfirmedPerson) {
    await files?.grantsLoaded()
    return syncPerson(database, confirmed)
  },
  /** Undefined if there is no such person. */
  loadPerson: (id: number) => database.read(manager => findPerson(manager, id)),
  /** Without those that do not exist. */
  loadPeople: (ids: readonly number[]) => database.read(manager => findPeople(manager, ids)),
  setAccess: (actor: Actor, id: number, access: AccessNames, isCurrent?: (version: number) => boolean) =>
    setAccess(database, actor, id, access, files?.profiles(), isCurrent),
  setAccessOfMany: (actor: Actor, change: BulkChange) => changeAccessOfMany(database, actor, change, files?.profiles()),
  /** What groups are granted by the grants in force, in the order of the files. */
  async listGrants(bounds: Bounds) {
    await files?.grantsLoaded()
    return listGrants(lists, bounds)
  },
  disablePerson: (actor: Actor, id: number) => setDisabled(database, actor, id, true),
  enablePerson: (actor: Actor, id: number) => setDisabled(database, actor, id, false),
  listProfiles: () => listProfiles(database, files?.profiles())
})
