// Adds a text for searching people that is folded when they are written, not at every search.
import type { QueryRunner } from 'typeorm'

const WRITTEN = "name || ' ' || username || ' ' || email"

// Latin letters that NFD does not decompose, then the marks that it separates; as in gateway/store/people.ts.
const FROM = 'øØłŁđĐı\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0323\u0326\u0327\u0328\u0331'
const TO = 'oOlLdDi'

/** ASCII has nothing to decompose, and only UTF-8 databases can decompose (PostgreSQL documentation, 9.4). */
const FOLDED = `CASE WHEN octet_length(${WRITTEN}) = char_length(${WRITTEN}) THEN lower(${WRITTEN})
  ELSE lower(translate(normalize(${WRITTEN}, NFD), '${FROM}', '${TO}')) END`

export class SearchedPeople {
  name = 'SearchedPeople1764547200000'

  async up(runner: QueryRunner): Promise<void> {
    const rows = (await runner.query('SHOW server_encoding')) as { server_encoding: string }[]
    const isUnicode = rows[0]?.server_encoding === 'UTF8'
    const text = isUnicode ? FOLDED : `lower(${WRITTEN})`
    await runner.query(`ALTER TABLE users ADD COLUMN searched text GENERATED ALWAYS AS (${text}) STORED`)
  }
}
