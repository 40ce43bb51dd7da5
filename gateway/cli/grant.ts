// Gives profiles and areas to someone who has logged in before, and audits it.
import { Conflict } from '../errors.ts'
import type { StoredPerson, Users } from '../store/users.ts'
import { profileName } from '../values/names.ts'
import type { Add, Cli, Report } from './command.ts'
import { ACTOR, personNamed, refuseUnknownProfiles, withUsers } from './open-store.ts'
import { plain } from './terminal.ts'

interface GrantOptions {
  readonly profile: readonly string[]
  readonly area: readonly string[]
}

export const addGrant: Add = (program, define) =>
  define(program, 'grant', grant, 'give a person profiles and areas, in addition to those that they have', [
    'grant maria --profile Admin --area Geral',
    'grant ldap:maria --profile Agente Supervisor --area Norte Sul',
    'grant id:7 --profile Agente --area Geral'
  ])
    .argument(
      '<user>',
      'username, ldap:username, cloudidp:username or id:NUMBER of someone who has logged in at least once'
    )
    .requiredOption('--profile <profile...>', 'Admin, Supervisor, Agente, or a profile that the route files define')
    .requiredOption('--area <area...>', 'areas; those that do not exist are created')
    .addHelpText(
      'after',
      '\nTokens of the person become stale at once. The main area is kept; if there is none, the first area becomes the main area.'
    )

/** Starts anew if someone else changes the access in between, so that nothing of that is undone. */
const addAccess = async (
  users: Users,
  id: number,
  addedProfiles: readonly string[],
  addedAreas: readonly string[]
): Promise<StoredPerson> => {
  const { assigned, version } = await personNamed(users, `id:${id}`)
  const profiles = [...new Set([...assigned.profiles, ...addedProfiles])]
  const areas = [...new Set([...assigned.areas, ...addedAreas])]
  const access = { profiles, areas, areaPrincipal: assigned.areaPrincipal ?? areas[0] ?? null }
  try {
    return await users.setAccess(ACTOR, id, access, current => current === version)
  } catch (error) {
    if (!(error instanceof Conflict)) throw error
    return addAccess(users, id, addedProfiles, addedAreas)
  }
}

const grant = ({ environment }: Cli, name: string, { profile, area }: GrantOptions): Promise<Report> =>
  withUsers(environment, async users => {
    const profiles = profile.map(profileName)
    await refuseUnknownProfiles(users, profiles)
    const { user } = await personNamed(users, name)
    const given = await users.areasFor(ACTOR, area)
    const { user: changed, disabled } = await addAccess(users, user.id, profiles, given)
    const person = `${changed.username} (id ${changed.id}, ${changed.provider})`
    const done = plain(`${person} now has ${changed.profiles.join(', ')} in ${changed.areas.join(', ')}.`)
    return {
      found: disabled,
      json: { ...changed, disabled },
      text: ({ green, yellow }) =>
        disabled
          ? `${green(done)}\n${yellow('The person is disabled and cannot log in until an Admin enables them.')}`
          : green(done)
    }
  })
