// Adds the grants in force: those of the newest route files of all instances, with a number that counts their changes.
import type { QueryRunner } from 'typeorm'

// What the grants give is still stored per person (granted_profiles, granted_areas, granted_access): the previous release
// reads and writes it there, with the checksum of the grants that it was worked out from.
const TABLES = `
  CREATE TABLE grants_in_force (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    generation integer NOT NULL,
    checksum text NOT NULL,
    changed_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    regranted_to integer
  );

  CREATE TABLE grant_rules (
    position integer PRIMARY KEY,
    provider text NOT NULL,
    group_key text NOT NULL,
    tenant text NOT NULL,
    group_name text NOT NULL,
    profiles text[] NOT NULL,
    areas text[] NOT NULL,
    place text NOT NULL
  );
  CREATE INDEX grant_rules_group ON grant_rules (provider, group_key);
`

export class R2GrantsInForce {
  name = 'R2GrantsInForce1764720000000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(TABLES)
  }
}
