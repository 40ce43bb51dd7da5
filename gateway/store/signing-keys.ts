// Stores the keys that sign assertions, and changes them under a lock that all instances share.
import type { EntityManager } from 'typeorm'
import type { KeyPlan, SigningKeyRow } from '../tokens/signing-keys.ts'
import { type Actor, appendAudits } from './audit-entry.ts'
import type { Database } from './database.ts'
import { clockOf, query, SIGNING_KEYS_LOCK } from './query.ts'

type Plan = (rows: readonly SigningKeyRow[], nowS: number) => KeyPlan

/** Applies the changes that `plan` returns, and returns the resulting keys. */
export const updateSigningKeys = async (database: Database, actor: Actor, plan: Plan) => {
  const seen = await database.read(readKeys)
  if (isNothing(plan(seen.rows, seen.nowS))) return seen
  return database.write(async manager => {
    await query(manager, 'SELECT pg_advisory_xact_lock($1)', [SIGNING_KEYS_LOCK])
    const { rows, nowS } = await readKeys(manager)
    const planned = plan(rows, nowS)
    await apply(manager, planned)
    await appendAudits(manager, [
      ...planned.setAside.map(kid => ({ actor, action: 'key.set-aside', target: `key:${kid}` })),
      ...planned.add.map(({ kid }) => ({ actor, action: 'key.create', target: `key:${kid}` }))
    ])
    return readKeys(manager)
  })
}

const isNothing = ({ add, reseal, setAside, remove }: KeyPlan): boolean =>
  add.length + reseal.length + setAside.length + remove.length === 0

/** With the time in seconds since the epoch, by the database's clock. */
const readKeys = async (manager: EntityManager) => {
  const rows = await query<SigningKeyRow>(manager, READ)
  return { rows, nowS: (await clockOf(manager)) / 1000 }
}

const apply = async (manager: EntityManager, { add, reseal, setAside, remove }: KeyPlan) => {
  for (const { kid, publicJwk, sealed, signsFrom } of add)
    await query(manager, ADD, [kid, JSON.stringify(publicJwk), JSON.stringify(sealed), signsFrom])
  for (const { kid, sealed } of reseal)
    await query(manager, 'UPDATE signing_keys SET sealed = $2 WHERE kid = $1', [kid, JSON.stringify(sealed)])
  await query(manager, 'UPDATE signing_keys SET set_aside_at = now() WHERE kid = ANY($1::text[])', [setAside])
  await query(manager, 'DELETE FROM signing_keys WHERE kid = ANY($1::text[])', [remove])
}

const READ = `
  SELECT kid, public_jwk AS "publicJwk", sealed, extract(epoch FROM signs_from)::float8 AS "signsFrom",
    coalesce(extract(epoch FROM set_aside_at), 0)::float8 AS "setAsideAt"
  FROM signing_keys ORDER BY signs_from DESC, kid`

const ADD = `
  INSERT INTO signing_keys (kid, public_jwk, sealed, signs_from)
  VALUES ($1, $2::jsonb, $3::jsonb, to_timestamp($4::float8)) ON CONFLICT DO NOTHING`
