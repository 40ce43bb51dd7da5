// Lets the audit log take many entries with one change of its head, instead of one for each entry.
import type { QueryRunner } from 'typeorm'

/*
 * A process that has read the head under its lock numbers its entries itself. The database checks once per statement that
 * they follow the head. Entries without a number, or without a key, are linked one by one as before. The versions of the
 * head that a statement leaves behind are read by everything that comes before the next vacuum.
 */
const FOLLOW = `
  CREATE FUNCTION audit_follow() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    head audit_head%ROWTYPE;
    linked record;
  BEGIN
    SELECT * INTO STRICT head FROM audit_head FOR UPDATE;
    IF EXISTS (SELECT FROM added WHERE id <= head.archived) THEN
      RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT count(*) AS entries, max(id) AS last_id, (array_agg(hash ORDER BY id DESC))[1] AS last_hash,
      bool_and(previous_hash = coalesce(hash_before, head.last_hash)) AS follows
    INTO linked
    FROM (SELECT id, previous_hash, hash, lag(hash) OVER (ORDER BY id) AS hash_before
      FROM added WHERE id > head.entries) AS numbered;
    IF linked.entries = 0 THEN RETURN NULL; END IF;
    IF linked.last_id <> head.entries + linked.entries OR NOT linked.follows THEN
      RAISE EXCEPTION 'another entry was written meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE audit_head SET entries = linked.last_id, last_hash = linked.last_hash;
    RETURN NULL;
  END $$;
  CREATE TRIGGER audit_events_follow AFTER INSERT ON audit_events REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION audit_follow();

  DROP TRIGGER audit_events_link ON audit_events;
  CREATE TRIGGER audit_events_link BEFORE INSERT ON audit_events
    FOR EACH ROW WHEN (NEW.id IS NULL OR NEW.key_id IS NULL) EXECUTE FUNCTION audit_link();
`

export class R2LinkedAtOnce {
  name = 'R2LinkedAtOnce1765324800000'

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(FOLLOW)
  }
}
