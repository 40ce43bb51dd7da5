// Finds the person that an argument of a command names, and refuses the names of profiles that do not exist.
import type { StoredPerson, Users } from '../store/users.ts'
import { nearestHint } from '../values/spelling.ts'
import { CannotRun } from './command.ts'

/** Finds exactly one person. A bare number may be an id or a username, but must not be both. */
export const personNamed = async (
  users: Pick<Users, 'loadPerson' | 'findByUsername'>,
  name: string
): Promise<StoredPerson> => {
  const [, provider, rest = ''] = /^(?:(ldap|cloudidp|id):)?(.+)$/s.exec(name) ?? []
  const isId = /^[1-9]\d{0,9}$/.test(rest)
  const withId =
    isId && (provider === undefined || provider === 'id') ? await users.loadPerson(Number(rest)) : undefined
  const byId = withId?.user.provider === 'client' ? undefined : withId
  const named = provider === 'id' ? [] : await users.findByUsername(rest)
  const byName = named.filter(({ user }) => provider === undefined || user.provider === provider)
  const found = [...new Map([byId, ...byName].flatMap(one => (one === undefined ? [] : [[one.user.id, one]]))).values()]
  const [person, ...others] = found
  if (person === undefined) {
    throw new CannotRun(
      `No such person: "${name}". People are known once they have logged in (for the first Admin, see BOOTSTRAP_ADMINS)`
    )
  }
  if (others.length > 0) {
    const all = found.map(({ user }) => `id:${user.id}  ${user.provider}:${user.username}  ${user.name}`)
    throw new CannotRun(`"${name}" is not one person but several; specify which one:`, all)
  }
  return person
}

/** Throws {@link CannotRun}: profiles are defined in route files, so a misspelt one must not create another. */
export const refuseUnknownProfiles = async (users: Users, names: readonly string[]): Promise<void> => {
  const known = (await users.listProfiles()).map(({ name }) => name)
  const unknown = names.find(name => !known.includes(name))
  if (unknown === undefined) return
  const hint = nearestHint(unknown, known) || `: must be one of ${known.join(', ')}`
  throw new CannotRun(`Unknown profile "${unknown}"${hint}`)
}
