// Names kinds of people as test lines do.
import { PROFILES } from '../../gateway/identity.ts'
import { readWho } from '../../gateway/route-files/who.ts'
import type { Asker } from '../../gateway/routes/decide.ts'
import { NO_GRANTS } from '../../gateway/routes/grants.ts'

export const askerOf = (who: string): Asker => {
  const { asker, complaint } = readWho(who, { profiles: PROFILES, grants: NO_GRANTS })
  if (asker === undefined) throw new Error(complaint)
  return asker
}
