// The tables in the docs are those of the code.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { TABLES, writtenTable } from './tables.ts'

const ROOT = resolve(import.meta.dirname, '../..')

t.test('the generated tables in the docs are those of the code', async t => {
  for (const [name, { page, text }] of Object.entries(TABLES)) {
    t.equal(writtenTable(name, page), text(), `${name}: \`npm run docs\` writes it`)
  }
})

t.test('every error code in the docs exists, and every code is in the docs', async t => {
  const codesOf = (file: string) => [...new Set(readFileSync(join(ROOT, file), 'utf8').match(/GW_[A-Z_]+/g))].sort()
  t.same(codesOf('docs/errors.md'), codesOf('gateway/errors.ts'))
})
