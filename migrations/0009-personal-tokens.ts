// Adds access tokens that people create for their scripts, stored as hashes.
import type { QueryRunner } from 'typeorm'

export class PersonalTokens {
  name = 'PersonalTokens1764374400000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE personal_tokens (
        id serial PRIMARY KEY,
        user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        hash text NOT NULL UNIQUE,
        name text NOT NULL,
        profiles text[] NOT NULL,
        version integer NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        expires_at timestamptz NOT NULL,
        last_used_at timestamptz,
        changed_in xid8 NOT NULL DEFAULT pg_current_xact_id()
      );
      CREATE INDEX personal_tokens_user ON personal_tokens (user_id);
      CREATE INDEX personal_tokens_expires ON personal_tokens (expires_at);
      CREATE INDEX personal_tokens_changed ON personal_tokens (changed_in);
      CREATE INDEX users_last_login ON users (last_login_at);
    `)
  }
}
