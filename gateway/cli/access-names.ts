// Resolves the profiles and areas that a command names; areas that do not exist are created.
import type { Users } from '../store/users.ts'
import { nearestHint } from '../values/spelling.ts'
import { CannotRun } from './command.ts'

type Actor = Parameters<Users['createArea']>[0]

/** Throws {@link CannotRun}: profiles are defined in route files, so a misspelt one must not create another. */
export const refuseUnknownProfiles = async (users: Users, names: readonly string[]): Promise<void> => {
  const known = (await users.listProfiles()).map(({ name }) => name)
  const unknown = names.find(name => !known.includes(name))
  if (unknown === undefined) return
  const hint = nearestHint(unknown, known) || `: must be one of ${known.join(', ')}`
  throw new CannotRun(`Unknown profile "${unknown}"${hint}`)
}

const PAGE_SIZE = 200

/** The areas in their existing spelling, ignoring case; missing ones are created. */
export const areasFor = async (users: Users, actor: Actor, names: readonly string[]): Promise<string[]> => {
  const known = new Map<string, string>()
  for (let page = 1; ; page += 1) {
    const { items } = await users.listAreas({ page, pageSize: PAGE_SIZE })
    for (const { name } of items) known.set(name.toLowerCase(), name)
    if (items.length < PAGE_SIZE) break
  }
  const areas: string[] = []
  for (const name of names.map(one => one.trim().normalize('NFC'))) {
    const area = known.get(name.toLowerCase()) ?? (await users.createArea(actor, name)).name
    known.set(area.toLowerCase(), area)
    areas.push(area)
  }
  return areas
}
