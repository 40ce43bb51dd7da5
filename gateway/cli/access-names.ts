// Refuses the profiles that a command names and no route file defines.
import type { Users } from '../store/users.ts'
import { nearestHint } from '../values/spelling.ts'
import { CannotRun } from './command.ts'

/** Throws {@link CannotRun}: profiles are defined in route files, so a misspelt one must not create another. */
export const refuseUnknownProfiles = async (users: Users, names: readonly string[]): Promise<void> => {
  const known = (await users.listProfiles()).map(({ name }) => name)
  const unknown = names.find(name => !known.includes(name))
  if (unknown === undefined) return
  const hint = nearestHint(unknown, known) || `: must be one of ${known.join(', ')}`
  throw new CannotRun(`Unknown profile "${unknown}"${hint}`)
}
