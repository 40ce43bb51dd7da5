// Asks a database of the benchmark one question, on a connection of its own.
import pg from 'pg'

export const asked = async (
  url: string,
  statement: string,
  values: unknown[] = []
): Promise<Record<string, unknown>[]> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(statement, values)).rows
  } finally {
    await client.end()
  }
}
