// Adds service accounts: each is a row in users, with credentials and conditions of its own.
import type { QueryRunner } from 'typeorm'

export class Clients {
  name = 'Clients1764288000000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE clients (
        user_id integer PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
        client_id text NOT NULL UNIQUE,
        name text NOT NULL,
        secret_hash text NOT NULL,
        previous_secret_hash text,
        previous_secret_until timestamptz,
        expires_at timestamptz,
        addresses text[] NOT NULL DEFAULT '{}',
        created_at timestamptz NOT NULL DEFAULT now(),
        last_used_at timestamptz
      );
      CREATE UNIQUE INDEX clients_name ON clients (lower(name));
    `)
  }
}
