// Adds the logins that belong to one account of the directory.
import type { QueryRunner } from 'typeorm'

export class LoginNames {
  name = 'LoginNames1763856000000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE login_names (
        login text PRIMARY KEY,
        account text NOT NULL,
        joined_at timestamptz NOT NULL DEFAULT now()
      );
      CREATE INDEX login_names_account ON login_names (account);
    `)
  }
}
