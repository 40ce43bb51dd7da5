// Makes each person in BOOTSTRAP_ADMINS an Admin at most once; later changes by Admins are kept.
import type { EntityManager } from 'typeorm'
import type { Provider } from '../identity.ts'
import type { BootstrapAdmin } from '../settings/settings.ts'
import { raiseVersions } from './access-changes.ts'
import { type AccessNames, lockAccess } from './access-state.ts'
import { appendAudit } from './audit-entry.ts'
import { getPerson, type StoredPerson } from './people.ts'
import { query } from './query.ts'

const AREA = 'Geral'

interface BootstrapCandidate {
  provider: Provider
  subject: string
  username: string
  bootstrapAdmins?: readonly BootstrapAdmin[]
}

/**
 * The entry that has to be applied to the person who is logging in, or undefined. Takes the access lock for it, so it comes
 * first in the login's transaction, before the person is locked.
 */
export const dueBootstrap = async (
  manager: EntityManager,
  candidate: BootstrapCandidate
): Promise<BootstrapAdmin | undefined> => {
  const entry = (candidate.bootstrapAdmins ?? []).find(admin => meets(admin, candidate))
  if (entry === undefined) return undefined
  const applied = await query(manager, APPLIED, [entry.provider, normal(entry)])
  if (applied.length > 0) return undefined
  await lockAccess(manager)
  return entry
}

/** Whether the entry was applied to this person now. Part of the login's transaction. */
export const applyBootstrap = async (
  manager: EntityManager,
  entry: BootstrapAdmin | undefined,
  person: StoredPerson,
  firstLogin: boolean
): Promise<boolean> => {
  if (entry === undefined) return false
  const id = person.user.id
  const claimed = await query(manager, CLAIM, [entry.provider, normal(entry), id])
  if (claimed.length === 0) return false
  await grant(manager, id)
  // A new person has no earlier tokens, and starts at version 0.
  if (!firstLogin) await raiseVersions(manager, [id])
  await record(manager, person, (await getPerson(manager, id)).assigned)
  return true
}

/** A directory login is compared ignoring case, a cloud subject exactly. */
const meets = (entry: BootstrapAdmin, { provider, subject, username }: BootstrapCandidate): boolean => {
  if (entry.provider !== provider) return false
  return provider === 'ldap' ? normal(entry) === username.trim().toLowerCase() : entry.subject === subject
}

const normal = ({ provider, subject }: BootstrapAdmin) => (provider === 'ldap' ? subject.trim().toLowerCase() : subject)

const grant = async (manager: EntityManager, id: number) => {
  await query(manager, 'INSERT INTO areas (name) VALUES ($1) ON CONFLICT DO NOTHING', [AREA])
  await query(
    manager,
    "INSERT INTO user_profiles SELECT $1, id FROM profiles WHERE name = 'Admin' ON CONFLICT DO NOTHING",
    [id]
  )
  const area = 'SELECT id FROM areas WHERE lower(name) = lower($2)'
  await query(manager, `INSERT INTO user_areas SELECT $1, id FROM (${area}) AS area ON CONFLICT DO NOTHING`, [id, AREA])
  await query(manager, `UPDATE users SET main_area_id = coalesce(main_area_id, (${area})) WHERE id = $1`, [id, AREA])
}

const record = (manager: EntityManager, person: StoredPerson, after: AccessNames) =>
  appendAudit(manager, {
    actor: { id: null, username: 'BOOTSTRAP_ADMINS' },
    action: 'access.bootstrap',
    target: `user:${person.user.id}`,
    before: person.assigned,
    after
  })

// The hash is what is left of an entry when its person has been erased.
const APPLIED = `
  SELECT 1 FROM bootstrap_applied
  WHERE provider = $1 AND subject IN ($2, encode(sha256(convert_to($2, 'UTF8')), 'hex'))`
const CLAIM = `
  INSERT INTO bootstrap_applied (provider, subject, user_id) VALUES ($1, $2, $3)
  ON CONFLICT DO NOTHING RETURNING user_id`
