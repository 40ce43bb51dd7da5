// docs/operate.md says what somebody with replicated stores looks for, and names no form of an address that the settings refuse.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { TEST_SECRET } from '../support/test-secret.ts'

const DOCS = join(import.meta.dirname, '../../docs')
const page = readFileSync(join(DOCS, 'operate.md'), 'utf8')

// RV-108
t.test('the page on stores has an answer to each question of an installation with replicated ones', async t => {
  const [, postgres = ''] = /\n## (Postgres: fail-over[\s\S]*?)\n## /.exec(page) ?? []
  for (const word of (
    'Several hosts¦loses commits¦synchronous_standby_names¦Poolers¦DATABASE_LISTEN_URL¦max_connections¦' +
    'A role without CREATE¦sslmode=verify-full¦idle_session_timeout¦Growth¦NTP¦transactions a second'
  ).split('¦'))
    t.match(postgres, word)
  for (const word of ['HAProxy', 'REDIS_CA_FILE', 'REDIS_PREFIX', 'An ACL user', 'client-output-buffer-limit'])
    t.match(page, word)
})

t.test('the forms of the addresses are those that the settings take', async t => {
  const read = (env: Record<string, string>) => () => readSettings({ JWT_SECRET: TEST_SECRET, ...env })
  const [several = ''] = /postgres:\/\/user:password@a:5432,b:5432\/name/.exec(page) ?? []
  t.doesNotThrow(read({ DATABASE_URL: several }))
  t.doesNotThrow(read({ DATABASE_URL: `${several}?sslmode=verify-full` }))
  t.doesNotThrow(read({ REDIS_URL: 'rediss://redis:6379/0' }))
  t.throws(read({ REDIS_URL: 'http://redis:6379/0' }))
})
