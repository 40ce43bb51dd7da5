// Reads people as the public API shows them, one or a page at a time.
import type { EntityManager } from 'typeorm'
import { NotFound } from '../errors.ts'
import type { AccessStatus, AccountProvider, User } from '../identity.ts'
import { array, object, string } from '../values/json-schema.ts'
import { type Database, readRows } from './database.ts'
import { type GrantedParts, grantedTo } from './granted-items.ts'
import { type Bounds, isRowId, MOST_COUNTED, type Page, pageBounds, query, storableText, totalOf } from './query.ts'

export interface AccessNames {
  profiles: string[]
  areas: string[]
  /** null only if there are no areas. */
  areaPrincipal: string | null
}

export interface StoredPerson {
  /** With all access of the person, assigned and granted. */
  user: User
  /** What an Admin assigned. */
  assigned: AccessNames
  /** `ver` of tokens issued now. */
  version: number
  lowestAcceptedVersion: number
  disabled: boolean
  createdAt: Date
  lastLoginAt: Date | null
  /** The person's groups could not be read the last time. */
  groupsUnreadable: boolean
}

export type PersonItem = User & {
  disabled: boolean
  /** ISO 8601, UTC; `''` if never. */
  lastLoginAt: string
  /** The groups could not be read the last time: what they grant stays for a while, then it lapses. */
  groupsUnreadable: boolean
  /** What an Admin assigned; `''` means no main area. */
  assigned: { profiles: string[]; areas: string[]; areaPrincipal: string }
} & GrantedParts

export interface PeopleQuery extends Bounds {
  /** Words, each part of a name, username or e-mail; case and accents are ignored. */
  search?: string | undefined
  accessStatus?: AccessStatus | undefined
  disabled?: boolean | undefined
}

/** The person or service account with this id, or undefined. */
export const findPerson = async (manager: EntityManager, id: number): Promise<StoredPerson | undefined> => {
  const [person] = await findPeople(manager, [id])
  return person
}

/** The people and service accounts with these ids. */
export const findPeople = async (manager: EntityManager, ids: readonly number[]): Promise<StoredPerson[]> => {
  const where = 'WHERE u.id = ANY($1::int[]) AND u.erased_at IS NULL'
  return (await query<PersonRow>(manager, `${SELECT} ${where}`, [ids.filter(isRowId)])).map(toPerson)
}

/** The person with this id. Throws NotFound, for service accounts too. */
export const getPerson = async (manager: EntityManager, id: number): Promise<StoredPerson> => {
  const person = await findPerson(manager, id)
  if (person === undefined || person.user.provider === 'client') throw new NotFound()
  return person
}

/** People with exactly this username, ignoring case: usually at most one per provider and issuer. */
export const findByUsername = async (database: Database, username: string): Promise<StoredPerson[]> => {
  const name = storableText(username)
  if (name === '') return []
  const where =
    "WHERE lower(u.username) = lower($1) AND u.provider <> 'client' AND u.erased_at IS NULL ORDER BY u.id LIMIT 50"
  return (await readRows<PersonRow>(database, `${SELECT} ${where}`, [name])).map(toPerson)
}

/** Unassigned people first, then by name, then by id. With `search`, the total is exact up to {@link MOST_COUNTED}. */
export const listPeople = (database: Database, filter: PeopleQuery = {}): Promise<Page<PersonItem>> => {
  const { where, values } = conditions(filter)
  const { page, pageSize, offset } = pageBounds(filter)
  return database.read(async manager => {
    // Each value is a word that is searched for.
    const most = values.length === 0 ? '' : `LIMIT ${MOST_COUNTED}`
    const counted = `SELECT count(*)::int AS total FROM (SELECT FROM users u ${where} ${most}) AS found`
    const total = (await query<{ total: number }>(manager, counted, values))[0]?.total ?? 0
    const isCounted = values.length === 0 || total < MOST_COUNTED
    const chosen = `SELECT u.id FROM users u ${where} ${windowOf(offset, pageSize, isCounted ? total : undefined)}`
    const people = await query<PersonRow>(manager, `${SELECT} WHERE u.id IN (${chosen}) ORDER BY ${ORDER}`, values)
    const items = await toItems(manager, people.map(toPerson))
    return { items, page, pageSize, total: totalOf(total, isCounted, items.length, offset, pageSize) }
  })
}

/** A page is reached from the end that is nearer to it. */
const windowOf = (offset: number, size: number, total: number | undefined): string => {
  if (total === undefined || offset <= total / 2) return `ORDER BY ${ORDER} LIMIT ${size} OFFSET ${offset}`
  const beyond = Math.max(total - offset - size, 0)
  const left = Math.max(Math.min(size, total - offset), 0)
  return `ORDER BY u.assigned DESC, lower(u.name) DESC, u.id DESC LIMIT ${left} OFFSET ${beyond}`
}

/** The person as shown in lists, with the corresponding access version. Throws NotFound. */
export const loadItem = (database: Database, id: number): Promise<{ item: PersonItem; version: number }> =>
  database.read(async manager => {
    const person = await findPerson(manager, id)
    const [item] = person === undefined || person.user.provider === 'client' ? [] : await toItems(manager, [person])
    if (person === undefined || item === undefined) throw new NotFound({ reason: 'no-person' })
    return { item, version: person.version }
  })

const toItems = async (manager: EntityManager, people: readonly StoredPerson[]): Promise<PersonItem[]> => {
  const granted = await grantedTo(
    manager,
    people.map(({ user }) => user.id)
  )
  return people.map(({ user, assigned, disabled, lastLoginAt, groupsUnreadable }) => ({
    ...user,
    disabled,
    lastLoginAt: lastLoginAt?.toISOString() ?? '',
    groupsUnreadable,
    assigned: { ...assigned, areaPrincipal: assigned.areaPrincipal ?? '' },
    ...(granted.get(user.id) ?? NOTHING_GRANTED)
  }))
}

const NOTHING_GRANTED: GrantedParts = { granted: [], groupsCutOff: false }

const conditions = ({ search, accessStatus, disabled }: PeopleQuery) => {
  const parts = ["u.provider <> 'client' AND u.erased_at IS NULL"]
  // One condition a word, each of which the index of trigrams can find; escaped for LIKE (PostgreSQL documentation, 9.7.1).
  // A sigma stands for any of its forms: some locales give the last of a word one of its own.
  const words = searchWords(storableText(search))
  const values = words.map(word => `%${word.replace(/[\\%_]/g, '\\$&').replace(/[Σσς]/g, '_')}%`)
  parts.push(...values.map((_, n) => `u.searched LIKE lower($${n + 1})`))
  // Alone, it would find everybody.
  if (words.some(word => /[Σσς]/.test(word))) parts.push("u.searched ~ '[Σσς]'")
  if (disabled !== undefined) parts.push(disabled ? 'u.disabled' : 'NOT u.disabled')
  if (accessStatus !== undefined) parts.push(accessStatus === 'assigned' ? 'u.assigned' : 'NOT u.assigned')
  return { where: `WHERE ${parts.join(' AND ')}`, values }
}

const ORDER = 'u.assigned, lower(u.name), u.id'

const SELECT = `
  SELECT u.id, u.name, u.email, u.username, u.provider, u.access_version AS version,
    u.lowest_accepted_version AS "lowestAcceptedVersion", u.disabled, u.created_at AS "createdAt", u.last_login_at AS "lastLoginAt",
    EXISTS (SELECT FROM directory_accounts d WHERE d.user_id = u.id AND d.groups_unread_since IS NOT NULL)
      AS "groupsUnreadable",
    ARRAY(SELECT p.name FROM user_profiles up JOIN profiles p ON p.id = up.profile_id
      WHERE up.user_id = u.id ORDER BY p.id) AS "assignedProfiles",
    ARRAY(SELECT a.name FROM user_areas ua JOIN areas a ON a.id = ua.area_id
      WHERE ua.user_id = u.id ORDER BY lower(a.name)) AS "assignedAreas",
    (SELECT a.name FROM areas a WHERE a.id = u.main_area_id) AS "assignedMain",
    ARRAY(SELECT p.name FROM profiles p WHERE p.id IN (
      SELECT up.profile_id FROM user_profiles up WHERE up.user_id = u.id
      UNION SELECT gp.profile_id FROM granted_profiles gp WHERE gp.user_id = u.id) ORDER BY p.id) AS profiles,
    ARRAY(SELECT a.name FROM areas a WHERE a.id IN (
      SELECT ua.area_id FROM user_areas ua WHERE ua.user_id = u.id
      UNION SELECT ga.area_id FROM granted_areas ga WHERE ga.user_id = u.id) ORDER BY lower(a.name)) AS areas,
    (SELECT a.name FROM areas a WHERE a.id = coalesce(u.main_area_id, (
      SELECT g.main_area_id FROM granted_access g WHERE g.user_id = u.id))) AS main
  FROM users u`

interface PersonRow extends Omit<StoredPerson, 'user' | 'assigned'> {
  id: number
  name: string
  email: string
  username: string
  provider: AccountProvider
  assignedProfiles: string[]
  assignedAreas: string[]
  assignedMain: string | null
  profiles: string[]
  areas: string[]
  main: string | null
}

const toPerson = (row: PersonRow): StoredPerson => {
  const { id, name, email, username, provider, profiles, areas } = row
  const { version, lowestAcceptedVersion, disabled, createdAt, lastLoginAt, groupsUnreadable } = row
  const person = { id, name, email, username, provider, perfis: [...profiles], profiles, areas }
  const accessStatus = profiles.length > 0 && areas.length > 0 ? 'assigned' : 'unassigned'
  const assigned = { profiles: row.assignedProfiles, areas: row.assignedAreas, areaPrincipal: row.assignedMain }
  const user: User = { ...person, areaPrincipal: row.main ?? '', accessStatus }
  return { user, assigned, version, lowestAcceptedVersion, disabled, createdAt, lastLoginAt, groupsUnreadable }
}

// Combining marks of Latin, Greek and Cyrillic that NFD separates, and Latin letters that it does not decompose.
const MARKS = '\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0323\u0326\u0327\u0328\u0331'
const WHOLE = 'øØłŁđĐı'
const PLAIN = 'oOlLdDi'

const FOLDED = new Map([...WHOLE].map((letter, i) => [letter, PLAIN[i] ?? '']))
for (const mark of MARKS) FOLDED.set(mark, '')

/** Words beyond this number are ignored. */
const MAX_WORDS = 10

/** The words of a search, without accents. Their case is the database's, as in the column that is searched. */
const searchWords = (text: string): string[] =>
  [...text.normalize('NFD')]
    .map(character => FOLDED.get(character) ?? character)
    .join('')
    .split(/\s+/)
    .filter(word => word !== '')
    .slice(0, MAX_WORDS)

/** Describes where the parts of a person's access come from, as JSON Schema, for the lists of Admins and the person's own page. */
export const accessSourceProperties = {
  assigned: {
    ...object({ profiles: array(string), areas: array(string), areaPrincipal: string }),
    description: 'What an Admin assigned; profiles and areas of the person are these and the granted ones'
  },
  granted: {
    ...array(object({ group: string, profiles: array(string), areas: array(string) })),
    description: 'What the route files grant to groups of the person'
  },
  groupsUnreadable: {
    type: 'boolean',
    description: 'The groups could not be read: what they grant stays for two rechecks, or a day, then it lapses'
  },
  groupsCutOff: { type: 'boolean', description: 'The provider left groups out of its list: nothing is granted' }
} as const
