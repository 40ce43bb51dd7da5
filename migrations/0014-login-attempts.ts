// Adds a table with one row per failed or unfinished login, which replaces the permits that were encoded as text.
import type { QueryRunner } from 'typeorm'

export class R2LoginAttempts {
  name = 'R2LoginAttempts1764806400000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE login_attempts (
        id uuid PRIMARY KEY,
        provider text NOT NULL,
        account text NOT NULL,
        address text NOT NULL,
        pair text NOT NULL,
        kind text NOT NULL CHECK (kind IN ('open', 'failed', 'lost', 'freed')),
        at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL
      );
      CREATE INDEX login_attempts_account ON login_attempts (account);
      CREATE INDEX login_attempts_address ON login_attempts (address, at);
      CREATE INDEX login_attempts_expires ON login_attempts (expires_at);
    `)
    // `f1763683200000.id*3`: three failures that the release before has counted. The directory counts them too.
    await runner.query(`
      INSERT INTO login_attempts (id, provider, account, address, pair, kind, at, expires_at)
      SELECT gen_random_uuid(), 'ldap', key, '', '', CASE parts[1] WHEN 'f' THEN 'failed' ELSE 'lost' END,
        to_timestamp(parts[2]::float8 / 1000), expires_at
      FROM login_permits, regexp_split_to_table(permits, ' ') AS word,
        regexp_match(word, '^([ofl])([0-9]{1,15})\\.[^*]+(?:\\*([0-9]{1,4}))?$') AS parts,
        generate_series(1, coalesce(parts[3], '1')::int)
      WHERE expires_at > now() AND parts IS NOT NULL
    `)
  }
}
