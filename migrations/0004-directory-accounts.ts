// Adds when the directory last confirmed each person, and which instance asks it.
import type { QueryRunner } from 'typeorm'

export class DirectoryAccounts {
  name = 'DirectoryAccounts1763942400000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE directory_accounts (
        user_id integer PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
        login text NOT NULL,
        checked_at timestamptz NOT NULL,
        confirmed_at timestamptz,
        missing_since timestamptz,
        ended_at timestamptz
      );
      CREATE INDEX directory_accounts_checked ON directory_accounts (checked_at) WHERE ended_at IS NULL;
      CREATE INDEX directory_accounts_confirmed ON directory_accounts (confirmed_at);
      CREATE TABLE directory_recheck (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        holder text NOT NULL,
        held_until timestamptz NOT NULL
      );
    `)
  }
}
