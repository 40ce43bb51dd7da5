// Lets a change of grants write what people have without a foreign-key check per row.
import type { QueryRunner } from 'typeorm'

// A change of grants replaces some fourteen rows a person. The check of each key took a third of that time, and finds nothing:
// the statement reads the ids that it writes, people and profiles are never deleted, and an area takes its rows with it here.
const CHECKED = [
  ['granted_profiles', 'user_id'],
  ['granted_profiles', 'profile_id'],
  ['granted_areas', 'user_id'],
  ['granted_areas', 'area_id']
] as const

// Also for instances of the release before, which delete only the area itself.
const FOLLOW = `
  CREATE FUNCTION areas_take_granted() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM granted_areas WHERE area_id IN (SELECT id FROM gone);
    RETURN NULL;
  END $$;
  CREATE TRIGGER areas_gone AFTER DELETE ON areas REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION areas_take_granted();
`

export class R2UncheckedGrants {
  name = 'R2UncheckedGrants1764979200000'

  async up(runner: QueryRunner): Promise<void> {
    for (const [table, column] of CHECKED)
      await runner.query(`ALTER TABLE ${table} DROP CONSTRAINT ${table}_${column}_fkey`)
    await runner.query(FOLLOW)
  }
}
