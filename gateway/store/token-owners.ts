// Reads the owners of access tokens, packed into one row for all owners with the same access.
import type { EntityManager } from 'typeorm'
import type { Provider } from '../identity.ts'
import type { TokenOwner } from '../tokens/owner-table.ts'
import { query } from './query.ts'

/** Names by id, and lists of names by the text of their ids. */
interface AccessNamesById {
  readonly profiles: ReadonlyMap<number, string>
  readonly areas: ReadonlyMap<number, string>
  readonly lists: Map<string, string[]>
}

/** Owners with the same access, consecutive in `owners`. */
interface PackedOwners {
  provider: Provider
  disabled: boolean
  mainArea: number | null
  /** Ids; one that is both assigned and granted occurs twice. */
  profiles: number[] | null
  areas: number[] | null
  owners: Buffer
}

export const readAccessNames = async (manager: EntityManager): Promise<AccessNamesById> => {
  const byId = (rows: { id: number; name: string }[]) => new Map(rows.map(({ id, name }) => [id, name]))
  return {
    profiles: byId(await query(manager, 'SELECT id, name FROM profiles ORDER BY id')),
    areas: byId(await query(manager, 'SELECT id, name FROM areas ORDER BY lower(name)')),
    lists: new Map()
  }
}

/** @param ids in ascending order */
export const readOwners = (manager: EntityManager, ids: readonly number[]): Promise<PackedOwners[]> => {
  const [first = 0, last = 0] = [ids[0], ids.at(-1)]
  const statement = last - first < MOST_PER_WANTED * ids.length ? BY_RANGE : BY_ID
  // As the text of an array, because the driver would quote each number.
  return query<PackedOwners>(manager, statement, [`{${ids.join()}}`])
}

/** The texts follow the id, the two versions (int4 each) and the time of confirmation; each ends with a zero byte. */
const TEXTS_AT = 3 * 4 + 8
const TEXTS = 3

export const unpackOwners = (row: PackedOwners, names: AccessNamesById): TokenOwner[] => {
  const unpacked: TokenOwner[] = []
  const { provider, disabled, owners } = row
  const profiles = listOf(names, 'profiles', row.profiles)
  const areas = listOf(names, 'areas', row.areas)
  const areaPrincipal = row.mainArea === null ? '' : (names.areas.get(row.mainArea) ?? '')
  const accessStatus = profiles.length > 0 && areas.length > 0 ? 'assigned' : 'unassigned'
  for (let at = 0; at < owners.length; ) {
    let end = at + TEXTS_AT - 1
    for (let text = 0; text < TEXTS; text++) end = owners.indexOf(0, end + 1)
    const [name = '', email = '', username = ''] = owners.toString('utf8', at + TEXTS_AT, end).split('\0')
    const id = owners.readInt32BE(at)
    unpacked.push({
      user: { id, name, email, username, provider, perfis: profiles, profiles, areas, areaPrincipal, accessStatus },
      version: owners.readInt32BE(at + 4),
      lowestAccepted: owners.readInt32BE(at + 8),
      disabled,
      confirmedAt: Math.floor(secondsAt(owners, at + 12))
    })
    at = end + 1
  }
  return unpacked
}

/** 2000-01-01 00:00:00 UTC, the epoch of Postgres (PostgreSQL documentation, 8.5). */
const POSTGRES_EPOCH_MICROS = 946_684_800_000_000
const TWO_TO_32 = 2 ** 32
const MICROS_PER_SECOND = 1_000_000

/** Seconds since the epoch, from what Postgres encodes with `timestamptz_send`, which costs it much less than `extract`. */
export const secondsAt = (packed: Buffer, at: number): number => {
  const micros = packed.readInt32BE(at) * TWO_TO_32 + packed.readUInt32BE(at + 4)
  return (micros + POSTGRES_EPOCH_MICROS) / MICROS_PER_SECOND
}

/** In the order of `names`. */
const listOf = (names: AccessNamesById, kind: 'profiles' | 'areas', ids: readonly number[] | null): string[] => {
  const key = `${kind} ${ids?.join()}`
  const known = names.lists.get(key)
  if (known !== undefined) return known
  const wanted = new Set(ids)
  const list = [...names[kind]].filter(([id]) => wanted.has(id)).map(([, name]) => name)
  names.lists.set(key, list)
  return list
}

/** A range may contain this many ids for each one wanted: Postgres takes several times as long to look up an id on its own. */
const MOST_PER_WANTED = 3

type Chosen = (column: string) => string

// Joined as whole sets: queried person by person, a hundred thousand owners take ten seconds.
const idsOf = (table: string, column: string, chosen: Chosen) => `
  (SELECT user_id, array_agg(${column}) AS ids FROM ${table} WHERE ${chosen('user_id')} GROUP BY user_id)`

/** @param chosen the condition by which rows of each table are looked up */
const ownersBy = (chosen: Chosen) => `
  SELECT u.disabled, coalesce(u.main_area_id, g.main_area_id) AS "mainArea",
    p.ids || gp.ids AS profiles, a.ids || ga.ids AS areas, u.provider,
    string_agg(int4send(u.id) || int4send(u.access_version) || int4send(u.lowest_accepted_version)
      || timestamptz_send(greatest(coalesce(u.last_login_at, u.created_at), d.confirmed_at))
      || convert_to(u.name, 'UTF8') || '\\x00' || convert_to(u.email, 'UTF8') || '\\x00'
      || convert_to(u.username, 'UTF8') || '\\x00', ''::bytea) AS owners
  FROM users u
    LEFT JOIN directory_accounts d ON d.user_id = u.id
    LEFT JOIN granted_access g ON g.user_id = u.id
    LEFT JOIN ${idsOf('user_profiles', 'profile_id', chosen)} p ON p.user_id = u.id
    LEFT JOIN ${idsOf('granted_profiles', 'profile_id', chosen)} gp ON gp.user_id = u.id
    LEFT JOIN ${idsOf('user_areas', 'area_id', chosen)} a ON a.user_id = u.id
    LEFT JOIN ${idsOf('granted_areas', 'area_id', chosen)} ga ON ga.user_id = u.id
  WHERE ${chosen('u.id')} AND u.id = ANY($1::int[])
  GROUP BY 1, 2, 3, 4, 5`

const BY_ID = ownersBy(column => `${column} = ANY($1::int[])`)
const BY_RANGE = ownersBy(column => `${column} BETWEEN ($1::int[])[1] AND ($1::int[])[cardinality($1::int[])]`)
