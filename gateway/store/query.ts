// Runs a parametrised statement of any kind and returns its rows.
import type { EntityManager } from 'typeorm'

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

/** Escapes a text for `LIKE '%' || $n || '%'` (PostgreSQL documentation, 9.7.1). */
export const escapeLike = (text: string): string => text.replace(/[\\%_]/g, '\\$&')

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
