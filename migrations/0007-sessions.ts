// Adds live logins, so that people and Admins can see and end them individually.
import type { QueryRunner } from 'typeorm'

export class Sessions {
  name = 'Sessions1764201600000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE sessions (
        id serial PRIMARY KEY,
        jti text NOT NULL UNIQUE,
        user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        provider text NOT NULL,
        created_at timestamptz NOT NULL,
        last_used_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        ip text NOT NULL DEFAULT '',
        user_agent text NOT NULL DEFAULT ''
      );
      CREATE INDEX sessions_user ON sessions (user_id, last_used_at DESC);
      CREATE INDEX sessions_expires ON sessions (expires_at);
    `)
  }
}
