// Adds a table that counts failed logins of an account for all instances.
import type { QueryRunner } from 'typeorm'

export class LoginPermits {
  name = 'LoginPermits1763769600000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE login_permits (
        key text PRIMARY KEY,
        permits text NOT NULL,
        expires_at timestamptz NOT NULL
      );
      CREATE INDEX login_permits_expires ON login_permits (expires_at);
    `)
  }
}
