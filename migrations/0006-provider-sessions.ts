// Adds the session at the cloud provider from which a login came, and the logout tokens that were used.
import type { QueryRunner } from 'typeorm'

export class ProviderSessions {
  name = 'ProviderSessions1764115200000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE provider_sessions (
        jti text PRIMARY KEY,
        user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        issuer text NOT NULL,
        subject text NOT NULL,
        sid text NOT NULL DEFAULT '',
        expires_at timestamptz NOT NULL
      );
      CREATE INDEX provider_sessions_subject ON provider_sessions (issuer, subject);
      CREATE INDEX provider_sessions_sid ON provider_sessions (issuer, sid) WHERE sid <> '';
      CREATE INDEX provider_sessions_user ON provider_sessions (user_id);
      CREATE INDEX provider_sessions_expires ON provider_sessions (expires_at);

      CREATE TABLE used_logout_tokens (
        key text PRIMARY KEY,
        expires_at timestamptz NOT NULL
      );
      CREATE INDEX used_logout_tokens_expires ON used_logout_tokens (expires_at);
    `)
  }
}
