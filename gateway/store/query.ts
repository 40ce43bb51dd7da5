// Runs parametrised statements, reads pages, takes advisory locks, and makes text and JSON from outside safe to store.
import { createHash } from 'node:crypto'
import type { EntityManager } from 'typeorm'
import { BadRequest } from '../errors.ts'

/** Rows of a statement; `Row` is the shape defined by our own schema. Values are passed only as parameters. */
export const query = async <Row>(
  manager: EntityManager,
  statement: string,
  parameters: readonly unknown[] = []
): Promise<Row[]> => {
  const result: unknown = await manager.query(statement, [...parameters])
  if (!Array.isArray(result)) return []
  // TypeORM answers UPDATE and DELETE with [rows, count].
  const [first, second] = result
  return Array.isArray(first) && typeof second === 'number' ? first : result
}

export interface Page<Item> {
  items: Item[]
  page: number
  pageSize: number
  total: number
}

export interface Bounds {
  page?: number | undefined
  pageSize?: number | undefined
}

/** Page and size within the limits of all lists: page from 1, size 1 to 200 (default 50). */
export const pageBounds = ({ page = 1, pageSize = 50 }: Bounds) => {
  const size = Math.min(Math.max(Math.trunc(pageSize) || 1, 1), 200)
  const number = Math.min(Math.max(Math.trunc(page) || 1, 1), 1_000_000)
  return { page: number, pageSize: size, offset: (number - 1) * size }
}

/** What searches find is counted up to this number. */
export const MOST_COUNTED = 10_000

/** No less than the page shows; a client that reads page after page goes on while there may be more. */
export const totalOf = (counted: number, isExact: boolean, rows: number, offset: number, size: number): number =>
  rows === 0 ? counted : Math.max(counted, offset + rows + Number(!isExact && rows === size))

/**
 * A page of rows and the number of all.
 * @param from what follows `SELECT count(*)`; has the same parameters, `values`, as `select`
 * @param select the statement, given the LIMIT and OFFSET that it must contain
 */
export const readPage = async <Row>(
  manager: EntityManager,
  bounds: Bounds,
  from: string,
  select: (window: string) => string,
  values: readonly unknown[] = []
): Promise<Page<Row>> => {
  const { page, pageSize, offset } = pageBounds(bounds)
  const [count] = await query<{ total: string }>(manager, `SELECT count(*) AS total ${from}`, values)
  const window = `LIMIT $${values.length + 1} OFFSET $${values.length + 2}`
  const items = await query<Row>(manager, select(window), [...values, pageSize, offset])
  return { items, page, pageSize, total: Number(count?.total ?? 0) }
}

/** Ids of our tables are int4: anything else cannot exist, and must not cause a database error. */
export const isRowId = (id: unknown): id is number =>
  typeof id === 'number' && Number.isInteger(id) && id > 0 && id <= 2_147_483_647

/** An id as a parameter: one that cannot exist becomes 0, which no row has. The `sub` of a token may be any number. */
export const rowId = (id: number): number => (isRowId(id) ? id : 0)

const MAX_TEXT_CODE_POINTS = 256
const MAX_JSON_BYTES = 32 * 1024
const SECRET_KEY = /^(password|secret|token|authorization|cookie|clientsecret|accesstoken)$/i

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** Trimmed text without NUL (rejected by Postgres) or lone surrogates, at most `max` code points; `''` if not a string. */
export const storableText = (value: unknown, max = MAX_TEXT_CODE_POINTS): string => {
  if (typeof value !== 'string') return ''
  const clean = value
    .slice(0, max * 4)
    .replaceAll('\0', '')
    .toWellFormed()
    .trim()
  return clean.length <= max ? clean : [...clean].slice(0, max).join('')
}

/** Identifies someone: kept unchanged or refused (`undefined`), because two altered texts could become equal. */
export const storableKey = (value: unknown, max = 512): string | undefined => {
  if (typeof value !== 'string' || value === '' || value.length > max) return undefined
  return value.includes('\0') || !value.isWellFormed() ? undefined : value
}

/** The name, unless `plainName` or `areaName` has refused it. Throws BadRequest. */
export const requireName = (name: string | undefined, reason: string): string => {
  if (name !== undefined) return name
  throw new BadRequest({ reason, message: 'name must have 1 to 64 characters, without control characters' })
}

/** A JSON value for jsonb; secrets are replaced by key, and a value over 32 KiB by its size. */
export const storableJson = (value: unknown): Json => {
  const text = JSON.stringify(value ?? null, clean)
  const bytes = Buffer.byteLength(text)
  return bytes <= MAX_JSON_BYTES ? (JSON.parse(text) as Json) : { truncated: true, bytes }
}

const clean = (key: string, value: unknown): unknown => {
  if (value !== undefined && SECRET_KEY.test(key)) return '[redacted]'
  if (typeof value === 'bigint') return String(value)
  return typeof value === 'string' ? value.replaceAll('\0', '').toWellFormed() : value
}

/** JSON with its keys in code unit order and no whitespace between tokens (after RFC 8785). */
export const canonicalJson = (value: Json): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const keys = Object.keys(value).sort()
  return `{${keys.map(key => `${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`).join(',')}}`
}

/** SHA-256 as lower-case hex. */
export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Whether the user `u` has a live session or access token. */
export const HOLDS_LOGIN = `(
  EXISTS (SELECT FROM sessions s WHERE s.user_id = u.id AND s.expires_at > now())
  OR EXISTS (
    SELECT FROM personal_tokens t
    WHERE t.user_id = u.id AND t.expires_at > now() AND t.version >= u.lowest_accepted_version
  ))`

/** Carries changes of access: see access-changes.ts. */
export const ACCESS_CHANNEL = 'portaria_access'

export const MIGRATION_LOCK = 7_263_544_001
/** Held by every change of access, area or state. */
const ACCESS_LOCK = 7_263_544_002
/**
 * Held shared while a person's access is worked out, and alone while other grants come into force, so that no person gets
 * what the grants before gave.
 */
export const GRANTS_LOCK = 7_263_544_003
export const SIGNING_KEYS_LOCK = 7_263_544_004
/** Held while entries of the audit log are checked or archived. */
export const AUDIT_CHECK_LOCK = 7_263_544_005
/** Of a session: held by the process that builds indexes. */
export const ONLINE_STEPS_LOCK = 7_263_544_006
export const AUDIT_KEY_LOCK = 7_263_544_007

/** The clock of the database, in milliseconds since the epoch. */
export const clockOf = async (manager: EntityManager): Promise<number> => {
  const [row] = await query<{ ms: number }>(manager, CLOCK)
  return row?.ms ?? Date.now()
}
const CLOCK = 'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS ms'

/** Until the end of the transaction, no other change of access, area or state runs, on any instance. */
export const lockAccess = (manager: EntityManager) => query(manager, 'SELECT pg_advisory_xact_lock($1)', [ACCESS_LOCK])

/**
 * Until the end of the transaction, nothing else changes these people. Statements over several people lock them in the
 * order of their ids, before anything of the audit log, so that no two of them can deadlock.
 */
export const lockPeople = (manager: EntityManager, ids: readonly number[]) =>
  query(manager, 'SELECT id FROM users WHERE id = ANY ($1::int[]) ORDER BY id FOR NO KEY UPDATE', [ids.filter(isRowId)])
