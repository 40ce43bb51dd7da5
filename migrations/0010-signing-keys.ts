// Adds the keys that sign assertions, shared by all instances; the private parts are encrypted.
import type { QueryRunner } from 'typeorm'

export class SigningKeys {
  name = 'SigningKeys1764460800000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE signing_keys (
        kid text PRIMARY KEY,
        public_jwk jsonb NOT NULL,
        sealed jsonb NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        signs_from timestamptz NOT NULL,
        set_aside_at timestamptz
      );
    `)
  }
}
