// Adds which directory account of a person last logged in, because `relink` may join several.
import type { QueryRunner } from 'typeorm'

export class R2AccountSubjects {
  name = 'R2AccountSubjects1765411200000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE directory_accounts ADD COLUMN subject text')
  }
}
