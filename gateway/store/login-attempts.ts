// Stores logins that are under way or have failed, one row each, so that all instances count the same ones.
import { type Database, readRows } from './database.ts'
import { query, storableKey } from './query.ts'

/** `accepted`: the password was right. `returned`: it was not checked. `lost`: it may have been checked, or may yet be. */
export type AttemptOutcome = 'accepted' | 'returned' | 'failed' | 'lost'

export interface BegunAttempt {
  /** A UUID. */
  readonly id: string
  /** What guards the account: its canonical login, or the name that will be bound. */
  readonly name: string
  /** `name` may be another login of an account that has logged in before. */
  readonly isTyped: boolean
  /** Client IP key. */
  readonly address: string
  /** Keyed hash of the name and the password that were typed. */
  readonly pair: string
}

/** Times are ms since the epoch by the database's clock, the only one that counts. */
export interface AccountPermit {
  /** `open` while under way, `failed` once refused, `lost` if its outcome will never be known. */
  readonly kind: 'open' | 'failed' | 'lost'
  readonly at: number
}

interface AddressRules {
  /** Different pairs of name and password that may fail. */
  readonly max: number
  readonly windowMs: number
  /** An attempt that has not ended after this time never will. */
  readonly patienceMs: number
}

/** What is stored about the account and the address of an attempt that is about to begin. */
export interface AttemptState {
  readonly now: number
  /** Keys of all names of the account, its canonical login first. */
  readonly accounts: readonly string[]
  /** An earlier login has shown which account the name belongs to. */
  readonly isResolved: boolean
  /** Whether this account has logged in from this address within the last 180 days. */
  readonly isKnown: boolean
  /** All other attempts of this account that may count. */
  readonly permits: readonly AccountPermit[]
  /** The address has had `max` failed pairs since then; null: it has fewer. */
  readonly addressHeldSince: number | null
  /** Other pairs of this address that have failed or are under way. */
  readonly otherPairs: number
}

interface Settlement {
  readonly attempt: BegunAttempt
  /** As read when the attempt began. */
  readonly accounts: readonly string[]
  readonly outcome: AttemptOutcome
  /** How long it counts if it failed; Infinity: until a success. */
  readonly keepMs: number
  readonly patienceMs: number
}

export type LoginAttempts = ReturnType<typeof createLoginAttempts>

/** Expired rows are removed with the other purges (`token-state.ts`). Each throws `GW_UNAVAILABLE` without a database. */
export const createLoginAttempts = (database: Database) => ({
  /**
   * Adds an open attempt if `decide` returns. No other attempt of its account or address begins in the meantime, on any
   * instance. If `decide` throws, nothing is left behind.
   */
  begin: <T>(
    attempt: BegunAttempt,
    rules: AddressRules,
    keepMs: number,
    decide: (state: AttemptState) => T
  ): Promise<T> => {
    const { id, name, isTyped, address, pair } = attempt
    return database.write(async manager => {
      await query(manager, BEGIN, [id, name, isTyped, address, pair, interval(keepMs)])
      const { max, windowMs, patienceMs } = rules
      const parameters = [id, name, isTyped, address, pair, max, windowMs, patienceMs]
      const [state] = await query<AttemptState>(manager, READ, parameters)
      if (state === undefined) throw new Error('the state of an account has no row')
      return decide(state)
    })
  },
  settle: ({ attempt, accounts, outcome, keepMs, patienceMs }: Settlement): Promise<unknown> => {
    const { id, address, pair } = attempt
    if (outcome === 'returned') return readRows(database, REMOVE, [id])
    if (outcome === 'accepted') return readRows(database, ACCEPT, [id, accounts, patienceMs])
    return readRows(database, FAIL, [id, 'ldap', accounts[0] ?? '', address, pair, outcome, interval(keepMs)])
  },
  /** Whether the account of a name has logged in from this address within the last 180 days. */
  isKnown: async ({ name, isTyped, address }: Pick<BegunAttempt, 'name' | 'isTyped' | 'address'>): Promise<boolean> => {
    const [row] = await readRows<{ known: boolean }>(database, IS_KNOWN, [address, name, isTyped])
    return row?.known === true
  }
})

/** Failed secrets of service accounts, counted per address apart from people's logins. */
export const createSecretFailures = (database: Database) => ({
  /** Ms until this address may try again; undefined: it may. */
  heldForMs: async (address: string, max: number, windowMs: number): Promise<number | undefined> => {
    const [row] = await readRows<{ ms: number }>(database, SECRETS_HELD, [address, max, windowMs])
    return row === undefined ? undefined : Math.max(1, row.ms)
  },
  add: async (id: string, address: string, windowMs: number): Promise<void> => {
    if (storableKey(address) === undefined) return
    await readRows(database, FAIL, [id, 'client', '', address, id, 'failed', interval(windowMs)])
  }
})

/** `taken`: another process is binding. */
type BindTurn = 'ours' | 'taken' | { readonly refusedForMs: number }

/**
 * Binds of the directory's service account, so that a refusal holds for all instances.
 *
 * @param id a UUID: the same for the same account, password and directory
 */
export const createServiceBinds = (database: Database, id: string) => ({
  /** @param patienceMs after this time, a bind of another process that has not ended never will */
  begin: async (patienceMs: number): Promise<BindTurn> => {
    const values = [id, interval(patienceMs)]
    const [row] = await readRows<{ isOurs: boolean; refusedForMs: number | null }>(database, BEGIN_SERVICE_BIND, values)
    if (row?.isOurs === true) return 'ours'
    return row === undefined || row.refusedForMs === null ? 'taken' : { refusedForMs: Math.max(1, row.refusedForMs) }
  },
  /** The directory has accepted the account, or said nothing about it. A refusal, of which a late turn did not know, stays. */
  release: () => readRows(database, `${REMOVE} AND kind = 'open'`, [id]),
  refuse: (pauseMs: number) => readRows(database, FAIL, [id, 'service', '', '', '', 'failed', interval(pauseMs)])
})

/** Postgres's intervals are finite before version 17. */
const interval = (lengthMs: number): string =>
  Number.isFinite(lengthMs) ? `${Math.ceil(lengthMs)} milliseconds` : '1000 years'

/** The key of a login. Not keyed by a secret: the same accounts must be found after a change of JWT_SECRET. */
export const accountKeyOf = (login: string): string =>
  `translate(encode(sha256('login'::bytea || '\\x00'::bytea || convert_to(${login}, 'UTF8')), 'base64'), '+/=', '-_')`

export const ms = (time: string): string => `floor(extract(epoch FROM ${time}) * 1000)::float8`
export const since = (parameter: string): string =>
  `clock_timestamp() - ${parameter}::float8 * interval '1 millisecond'`
/** Of login $2 if $3; null if no login has shown it. */
const RESOLVED = '(SELECT account FROM login_names WHERE $3::boolean AND login = $2::text)'

/** What lies ahead is of a clock that has been set back since: it counts from now on, so that it holds nothing for longer than its window. */
const redated = (which: string): string => `
  redated AS (
    UPDATE login_attempts SET at = clock_timestamp(), expires_at = clock_timestamp() + (expires_at - at)
    WHERE (${which}) AND at > clock_timestamp() + interval '1 minute'
  )`

// Nothing may exist that could be locked, so advisory locks take the place of rows. All take them in the same order. They
// come before the rows are read, in a statement of their own, which sees what earlier holders of the locks have stored.
const BEGIN = `
  WITH guard AS MATERIALIZED (SELECT coalesce(${RESOLVED}, $2) AS account),
  one AS MATERIALIZED (SELECT account, pg_advisory_xact_lock(7263544, hashtext($4::text)) AS locked FROM guard),
  both_locks AS MATERIALIZED (SELECT account, locked, pg_advisory_xact_lock(7263545, hashtext(account)) AS other FROM one),
  ${redated(`address = $4 OR account = (SELECT ${accountKeyOf('account')} FROM both_locks)`)}
  INSERT INTO login_attempts (id, provider, account, address, pair, kind, at, expires_at)
  SELECT $1::uuid, 'ldap', ${accountKeyOf('account')}, $4, $5::text, 'open', clock_timestamp(),
    clock_timestamp() + $6::interval
  FROM both_locks`
const FAILED_PAIRS = `
  SELECT pair, max(at) AS at FROM login_attempts
  WHERE address = $4 AND provider = 'ldap' AND kind IN ('failed', 'freed') AND at > ${since('$7')} GROUP BY pair`
const READ = `
  SELECT ${ms('clock_timestamp()')} AS now, accounts, is_resolved AS "isResolved",
    EXISTS (
      SELECT FROM login_addresses l WHERE l.login = guard.account AND l.address = $4::text
        AND l.last_success_at > now() - interval '180 days'
    ) AS "isKnown",
    (SELECT coalesce(json_agg(json_build_object('kind', a.kind, 'at', ${ms('a.at')})), '[]') FROM login_attempts a
      WHERE a.account = ANY(accounts) AND a.kind <> 'freed' AND a.id <> $1::uuid) AS permits,
    (SELECT ${ms('at')} FROM (${FAILED_PAIRS}) AS failed ORDER BY at DESC OFFSET $6::int - 1 LIMIT 1)
      AS "addressHeldSince",
    (SELECT count(DISTINCT pair)::int FROM (
      SELECT pair FROM (${FAILED_PAIRS}) AS failed
      UNION ALL SELECT pair FROM login_attempts WHERE address = $4 AND provider = 'ldap' AND kind = 'open'
        AND at > ${since('$8')} AND id <> $1
    ) AS pairs WHERE pair <> $5::text) AS "otherPairs"
  FROM (SELECT coalesce(${RESOLVED}, $2) AS account, ${RESOLVED} IS NOT NULL AS is_resolved) AS guard,
    LATERAL (SELECT ARRAY(
      SELECT ${accountKeyOf('login')} FROM (
        SELECT guard.account AS login, 0 AS position
        UNION ALL SELECT n.login, 1 FROM login_names n
          WHERE $3 AND n.account = guard.account AND n.login <> guard.account
      ) AS names ORDER BY position
    ) AS accounts) AS keys`
const IS_KNOWN = `
  SELECT EXISTS (
    SELECT FROM login_addresses WHERE login = coalesce(${RESOLVED}, $2) AND address = $1::text
      AND last_success_at > now() - interval '180 days'
  ) AS known`

// A directory forgets earlier failures when it accepts a password. Those that ended after this attempt began may have been
// checked after it, and stay. Freed ones still count for their address. Rows are locked in one order, so that two of these
// statements cannot wait for each other.
const ACCEPT = `
  WITH mine AS (DELETE FROM login_attempts WHERE id = $1 RETURNING at),
  earlier AS (
    SELECT a.id FROM login_attempts a, mine
    WHERE a.account = ANY($2::text[]) AND (a.kind IN ('failed', 'lost') AND a.at < mine.at
      OR a.kind = 'open' AND a.at < mine.at - $3::float8 * interval '1 millisecond')
    ORDER BY a.id FOR UPDATE OF a
  ), gone AS (DELETE FROM login_attempts WHERE kind <> 'failed' AND id IN (SELECT id FROM earlier))
  UPDATE login_attempts SET kind = 'freed' WHERE kind = 'failed' AND id IN (SELECT id FROM earlier)`
const REMOVE = 'DELETE FROM login_attempts WHERE id = $1'
const FAIL = `
  INSERT INTO login_attempts (id, provider, account, address, pair, kind, at, expires_at)
  VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), clock_timestamp() + $7::interval)
  ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, at = excluded.at, expires_at = excluded.expires_at`
// A row that another process has just inserted is not visible here: `taken`.
// A refusal that is over is still seen while another process begins: that one has the turn.
const BEGIN_SERVICE_BIND = `
  WITH mine AS (
    INSERT INTO login_attempts AS a (id, provider, account, address, pair, kind, at, expires_at)
    VALUES ($1, 'service', '', '', '', 'open', clock_timestamp(), clock_timestamp() + $2::interval)
    ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, at = excluded.at, expires_at = excluded.expires_at
    WHERE a.expires_at <= clock_timestamp() OR a.at > clock_timestamp() + interval '1 minute'
    RETURNING id
  )
  SELECT EXISTS (SELECT FROM mine) AS "isOurs",
    (SELECT ${ms('expires_at')} - ${ms('clock_timestamp()')} FROM login_attempts
      WHERE id = $1 AND kind = 'failed' AND expires_at > clock_timestamp()) AS "refusedForMs"`
const SECRETS_HELD = `
  WITH ${redated("address = $1 AND provider = 'client'")}
  SELECT least(${ms('at')} + $3::float8 - ${ms('clock_timestamp()')}, $3::float8) AS ms FROM login_attempts
  WHERE address = $1 AND provider = 'client' AND at > ${since('$3')} ORDER BY at DESC OFFSET $2::int - 1 LIMIT 1`
