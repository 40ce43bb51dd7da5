// Adds the groups in which people were last seen, and the access that route files grant to them.
import type { QueryRunner } from 'typeorm'

// What an Admin assigned stays where it is (user_profiles, user_areas, users.main_area_id): a release without grants keeps
// working with it, and when it deletes an area, the granted rows are deleted too.
const TABLES = `
  CREATE TABLE person_groups (
    user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    provider text NOT NULL,
    tenant text NOT NULL DEFAULT '',
    groups text[] NOT NULL DEFAULT '{}',
    cut_off boolean NOT NULL DEFAULT false,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, provider)
  );
  CREATE INDEX person_groups_groups ON person_groups USING gin (groups);

  CREATE TABLE granted_access (
    user_id integer PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    grants_checksum text NOT NULL,
    main_area_id integer REFERENCES areas (id) ON DELETE SET NULL
  );
  CREATE INDEX granted_access_checksum ON granted_access (grants_checksum);
  CREATE INDEX granted_access_main_area ON granted_access (main_area_id);

  CREATE TABLE granted_profiles (
    user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    profile_id integer NOT NULL REFERENCES profiles (id),
    PRIMARY KEY (user_id, profile_id)
  );
  CREATE INDEX granted_profiles_profile ON granted_profiles (profile_id);

  CREATE TABLE granted_areas (
    user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    area_id integer NOT NULL REFERENCES areas (id) ON DELETE CASCADE,
    PRIMARY KEY (user_id, area_id)
  );
  CREATE INDEX granted_areas_area ON granted_areas (area_id);
`

export class GrantedAccess {
  name = 'GrantedAccess1764028800000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(TABLES)
  }
}
