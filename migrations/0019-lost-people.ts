// Adds the people whose access changed in commits that a fail-over has lost, so that every instance ends their earlier tokens.
import type { QueryRunner } from 'typeorm'

export class R2LostPeople {
  name = 'R2LostPeople1765238400000'

  async up(runner: QueryRunner): Promise<void> {
    // No foreign key: the person may be lost as well.
    await runner.query(`
      CREATE TABLE lost_people (
        user_id integer PRIMARY KEY,
        lowest_accepted integer NOT NULL,
        heard_at timestamptz NOT NULL,
        written_in xid8 NOT NULL DEFAULT pg_current_xact_id()
      );
      CREATE INDEX lost_people_written ON lost_people (written_in)`)
  }
}
