// Adds whose account a login name belongs to, and since when a person's groups cannot be read.
import type { QueryRunner } from 'typeorm'

export class R2ProvenNames {
  name = 'R2ProvenNames1764633600000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE login_names ADD COLUMN subject text;
      CREATE INDEX login_names_subject ON login_names (subject);
      -- Names that were only a piece of another name led to other people's accounts. The next login adds those that lead to its own.
      DELETE FROM login_names WHERE login <> account;
      UPDATE login_names n SET subject = (
        SELECT min(l.subject) FROM provider_links l JOIN users u ON u.id = l.user_id
        WHERE l.provider = 'ldap' AND lower(u.username) = n.account HAVING count(*) = 1
      );
      ALTER TABLE directory_accounts ADD COLUMN groups_unread_since timestamptz,
        ADD COLUMN groups_misses integer NOT NULL DEFAULT 0;
    `)
  }
}
