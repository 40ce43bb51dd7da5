// Creates the first schema: people, their access, ended tokens, login memory and the append-only audit log.
import type { QueryRunner } from 'typeorm'

// `*_in xid8` holds the transaction that made the change: with pg_snapshot_xmin() an instance can re-read exactly what
// was committed since it last looked, and a transaction that commits late is never skipped.
const PEOPLE = `
  CREATE TABLE areas (
    id serial PRIMARY KEY,
    name text NOT NULL
  );
  CREATE UNIQUE INDEX areas_name ON areas (lower(name));

  CREATE TABLE profiles (
    id serial PRIMARY KEY,
    name text NOT NULL UNIQUE
  );
  INSERT INTO profiles (name) VALUES ('Admin'), ('Supervisor'), ('Agente');

  CREATE TABLE users (
    id serial PRIMARY KEY,
    name text NOT NULL DEFAULT '',
    email text NOT NULL DEFAULT '',
    username text NOT NULL DEFAULT '',
    provider text NOT NULL,
    access_version integer NOT NULL DEFAULT 0,
    lowest_accepted_version integer NOT NULL DEFAULT 0,
    version_changed_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    disabled boolean NOT NULL DEFAULT false,
    main_area_id integer REFERENCES areas (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    last_login_at timestamptz,
    CHECK (lowest_accepted_version BETWEEN 0 AND access_version)
  );
  CREATE INDEX users_name ON users (lower(name), id);
  CREATE INDEX users_username ON users (lower(username));
  CREATE INDEX users_email ON users (lower(email));
  CREATE INDEX users_main_area ON users (main_area_id);
  CREATE INDEX users_version_changed ON users (version_changed_in) WHERE access_version > 0;

  CREATE TABLE provider_links (
    provider text NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL CHECK (subject <> ''),
    user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, issuer, subject)
  );
  CREATE INDEX provider_links_user ON provider_links (user_id);

  CREATE TABLE user_profiles (
    user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    profile_id integer NOT NULL REFERENCES profiles (id),
    PRIMARY KEY (user_id, profile_id)
  );
  CREATE INDEX user_profiles_profile ON user_profiles (profile_id);

  CREATE TABLE user_areas (
    user_id integer NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    area_id integer NOT NULL REFERENCES areas (id),
    PRIMARY KEY (user_id, area_id)
  );
  CREATE INDEX user_areas_area ON user_areas (area_id);

  CREATE TABLE bootstrap_applied (
    provider text NOT NULL,
    subject text NOT NULL,
    user_id integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, subject)
  );
`

// No foreign keys to users from here on, because what ended and what was recorded outlives the person.
const LOGINS = `
  CREATE TABLE revocations (
    jti text PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz NOT NULL DEFAULT now(),
    revoked_in xid8 NOT NULL DEFAULT pg_current_xact_id()
  );
  CREATE INDEX revocations_expires ON revocations (expires_at);
  CREATE INDEX revocations_revoked ON revocations (revoked_in);

  CREATE TABLE used_oauth_states (
    nonce text PRIMARY KEY,
    expires_at timestamptz NOT NULL
  );
  CREATE INDEX used_oauth_states_expires ON used_oauth_states (expires_at);

  CREATE TABLE login_addresses (
    login text NOT NULL,
    address text NOT NULL,
    user_id integer NOT NULL,
    last_success_at timestamptz NOT NULL,
    PRIMARY KEY (login, address)
  );
  CREATE INDEX login_addresses_last_success ON login_addresses (last_success_at);
`

const AUDIT = `
  CREATE TABLE audit_head (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    entries bigint NOT NULL,
    last_hash text NOT NULL
  );
  INSERT INTO audit_head (entries, last_hash) VALUES (0, repeat('0', 64));

  CREATE TABLE audit_events (
    id bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    actor_id integer,
    actor_username text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    before jsonb,
    after jsonb,
    request_id text NOT NULL,
    ip text NOT NULL,
    details jsonb,
    content_hash text NOT NULL,
    previous_hash text NOT NULL,
    hash text NOT NULL UNIQUE
  );
  CREATE INDEX audit_events_actor ON audit_events (lower(actor_username), id);
  CREATE INDEX audit_events_actor_id ON audit_events (actor_id, id);
  CREATE INDEX audit_events_target ON audit_events (target, id);
  CREATE INDEX audit_events_action ON audit_events (action, id);

  CREATE FUNCTION audit_link() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    head audit_head%ROWTYPE;
  BEGIN
    SELECT * INTO STRICT head FROM audit_head FOR UPDATE;
    NEW.id := head.entries + 1;
    NEW.previous_hash := head.last_hash;
    NEW.hash := encode(sha256(convert_to(head.last_hash || NEW.content_hash, 'UTF8')), 'hex');
    UPDATE audit_head SET entries = NEW.id, last_hash = NEW.hash;
    RETURN NEW;
  END $$;
  CREATE TRIGGER audit_events_link BEFORE INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_link();

  CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
  END $$;
  CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
  CREATE TRIGGER audit_head_kept BEFORE INSERT OR DELETE OR TRUNCATE ON audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
  CREATE TRIGGER audit_head_moved_by_entries BEFORE UPDATE ON audit_head
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION audit_refuse();
`

export class FirstSchema {
  name = 'FirstSchema1763683200000'

  async up(runner: QueryRunner): Promise<void> {
    for (const part of [PEOPLE, LOGINS, AUDIT]) await runner.query(part)
  }
}
