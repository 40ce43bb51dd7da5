// Adds what each logout token ended, so that a login at the same moment does not outlive it.
import type { QueryRunner } from 'typeorm'

export class R2EndedProviderSessions {
  name = 'R2EndedProviderSessions1764892800000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE used_logout_tokens
        ADD issuer text NOT NULL DEFAULT '',
        ADD subject text NOT NULL DEFAULT '',
        ADD sid text NOT NULL DEFAULT '',
        ADD issued_at timestamptz NOT NULL DEFAULT now()`)
  }
}
