// Stores who has access, so that lists of people are read from an index, and when a person was erased.
import type { QueryRunner } from 'typeorm'

/** Whether the user `u` has at least one profile and one area, assigned or granted. */
const ASSIGNED = `(
  (EXISTS (SELECT FROM user_profiles up WHERE up.user_id = u.id)
    OR EXISTS (SELECT FROM granted_profiles gp WHERE gp.user_id = u.id))
  AND (EXISTS (SELECT FROM user_areas ua WHERE ua.user_id = u.id)
    OR EXISTS (SELECT FROM granted_areas ga WHERE ga.user_id = u.id)))`

const SOURCES = ['user_profiles', 'user_areas', 'granted_profiles', 'granted_areas'] as const

// Once per statement, because regranting changes thousands of rows in one.
const FOLLOW = `
  CREATE FUNCTION users_follow_access() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE users u SET assigned = NOT assigned
    WHERE id IN (SELECT user_id FROM changed) AND assigned <> ${ASSIGNED};
    RETURN NULL;
  END $$;
  ${SOURCES.map(
    table => `
  CREATE TRIGGER ${table}_given AFTER INSERT ON ${table} REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION users_follow_access();
  CREATE TRIGGER ${table}_taken AFTER DELETE ON ${table} REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION users_follow_access();`
  ).join('')}
`

/** Brings people up to date who had their access before; `store/online-steps.ts` uses it for many, in portions. */
export const FOLLOW_BEFORE = `UPDATE users u SET assigned = NOT assigned WHERE assigned <> ${ASSIGNED}`

/** The order of lists; INCLUDE, because Postgres does not see that lower(name) is in the index (documentation, 11.9). */
export const LISTED = `ON users (assigned, lower(name), id) INCLUDE (name, disabled)
  WHERE provider <> 'client' AND erased_at IS NULL`
/** For their totals: small, as equal keys are stored once. */
export const COUNTED = `ON users (assigned, disabled) WHERE provider <> 'client' AND erased_at IS NULL`

const FEW = 20_000
const IS_LARGE = `SELECT count(*) > ${FEW} AS large FROM (SELECT FROM users LIMIT ${FEW + 1}) AS first_ones`

export class R2ListedPeople {
  name = 'R2ListedPeople1765152000000'

  async up(runner: QueryRunner): Promise<void> {
    // Lists read the index alone where the table has been vacuumed, so that is done after fewer logins.
    await runner.query(`
      ALTER TABLE users ADD assigned boolean NOT NULL DEFAULT false, ADD erased_at timestamptz;
      ALTER TABLE users SET (autovacuum_vacuum_scale_factor = 0.02);
      DROP INDEX users_name, users_email;
    `)
    await runner.query(FOLLOW)
    const rows = (await runner.query(IS_LARGE)) as { large: boolean }[]
    if (rows[0]?.large === true) return
    await runner.query(FOLLOW_BEFORE)
    await runner.query(`CREATE INDEX users_counted ${COUNTED}`)
    await runner.query(`CREATE INDEX users_listed ${LISTED}`)
  }
}
