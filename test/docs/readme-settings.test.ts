import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { settingsTable } from '../../gateway/settings/table.ts'

const readme = readFileSync(join(resolve(import.meta.dirname, '../..'), 'README.md'), 'utf8')

t.test('the settings in the README are those of the code', async t => {
  const written = /<!-- settings[^>]*-->\n([\s\S]*?)\n<!-- \/settings -->/.exec(readme)?.[1]
  t.equal(written?.trim(), settingsTable().trim())
})

t.test('every error code in the README exists, and every code is in the README', async t => {
  const errors = readFileSync(join(resolve(import.meta.dirname, '../..'), 'gateway/errors.ts'), 'utf8')
  const inCode = new Set(errors.match(/GW_[A-Z_]+/g))
  const inReadme = new Set(readme.match(/GW_[A-Z_]+/g))
  t.same([...inReadme].sort(), [...inCode].sort())
})
