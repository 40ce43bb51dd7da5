// Lets the audit log be chained with a key, checked from a stored checkpoint, archived, and freed of names and addresses.
import type { QueryRunner } from 'typeorm'

// Entries without a key come from the release before, or from before the switch: the database links those itself. A process
// with the key has read the head under its lock, and gives both hashes.
const LINK = `
  CREATE OR REPLACE FUNCTION audit_link() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    head audit_head%ROWTYPE;
  BEGIN
    SELECT * INTO STRICT head FROM audit_head FOR UPDATE;
    NEW.id := head.entries + 1;
    IF NEW.key_id IS NULL THEN
      NEW.previous_hash := head.last_hash;
      NEW.hash := encode(sha256(convert_to(head.last_hash || NEW.content_hash, 'UTF8')), 'hex');
    ELSIF NEW.previous_hash IS DISTINCT FROM head.last_hash THEN
      RAISE EXCEPTION 'another entry was written meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE audit_head SET entries = NEW.id, last_hash = NEW.hash;
    RETURN NEW;
  END $$;
`

const TABLES = `
  ALTER TABLE audit_head
    ADD archived bigint NOT NULL DEFAULT 0,
    ADD archived_hash text NOT NULL DEFAULT repeat('0', 64),
    ADD archived_key text,
    ADD archived_mac text;

  -- Digests take the place of a name and an address that were erased.
  ALTER TABLE audit_events ADD key_id text, ADD actor_digest text, ADD ip_digest text,
    DROP CONSTRAINT audit_events_hash_key;

  CREATE TABLE audit_keys (
    id text PRIMARY KEY,
    sealed jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
  );

  CREATE TABLE audit_check (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    body text NOT NULL,
    key_id text NOT NULL,
    mac text NOT NULL
  );
`

// Entries leave only once they are in an archive, whose last number the head then holds; of an entry nothing can be changed
// but the name and the address, which can go.
const GUARDS = `
  CREATE FUNCTION audit_guard_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF EXISTS (SELECT FROM gone WHERE id > (SELECT archived FROM audit_head)) THEN
      RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
  END $$;

  CREATE FUNCTION audit_guard_change() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF OLD.key_id IS NULL
      OR to_jsonb(NEW) - '{actor_username,actor_digest,ip,ip_digest}'::text[]
        <> to_jsonb(OLD) - '{actor_username,actor_digest,ip,ip_digest}'::text[]
      OR (NEW.actor_username, NEW.actor_digest) IS DISTINCT FROM (OLD.actor_username, OLD.actor_digest)
        AND NOT (NEW.actor_username = '' AND OLD.actor_digest IS NULL AND NEW.actor_digest IS NOT NULL)
      OR (NEW.ip, NEW.ip_digest) IS DISTINCT FROM (OLD.ip, OLD.ip_digest)
        AND NOT (NEW.ip = '' AND OLD.ip_digest IS NULL AND NEW.ip_digest IS NOT NULL)
    THEN
      RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
  END $$;

  CREATE FUNCTION audit_guard_head() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF (NEW.entries, NEW.last_hash) IS DISTINCT FROM (OLD.entries, OLD.last_hash) OR NEW.archived <= OLD.archived
      OR NEW.archived_hash IS DISTINCT FROM (SELECT hash FROM audit_events WHERE id = NEW.archived)
    THEN
      RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
  END $$;

  DROP TRIGGER audit_events_append_only ON audit_events;
  CREATE TRIGGER audit_events_append_only BEFORE TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
  CREATE TRIGGER audit_events_change BEFORE UPDATE ON audit_events
    FOR EACH ROW EXECUTE FUNCTION audit_guard_change();
  CREATE TRIGGER audit_events_deletion AFTER DELETE ON audit_events REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION audit_guard_deletion();

  DROP TRIGGER audit_head_moved_by_entries ON audit_head;
  CREATE TRIGGER audit_head_moved_by_entries BEFORE UPDATE ON audit_head
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION audit_guard_head();
`

/** Building an index over more entries would keep logins waiting; `store/online-steps.ts` builds it while gateways run. */
const FEW = 20_000
const IS_LARGE = `SELECT count(*) > ${FEW} AS large FROM (SELECT FROM audit_events LIMIT ${FEW + 1}) AS first_ones`

export class R2KeyedAudit {
  name = 'R2KeyedAudit1765065600000'

  async up(runner: QueryRunner): Promise<void> {
    for (const part of [TABLES, LINK, GUARDS]) await runner.query(part)
    const rows = (await runner.query(IS_LARGE)) as { large: boolean }[]
    if (rows[0]?.large !== true) await runner.query('CREATE INDEX audit_events_at ON audit_events (at, id)')
  }
}
