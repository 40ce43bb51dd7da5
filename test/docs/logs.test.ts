// docs/logs.md names every reason that the gateway logs, and every warning and error, and nothing that it does not.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { DIRECTORY_REASONS } from '../../gateway/directory/failure.ts'

const ROOT = join(import.meta.dirname, '../..')
const docs = readFileSync(join(ROOT, 'docs/logs.md'), 'utf8')
const sources = readdirSync(join(ROOT, 'gateway'), { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts') && !file.startsWith('cli/') && !file.includes('browser/'))
  .map(file => readFileSync(join(ROOT, 'gateway', file), 'utf8'))
const code = sources.join('\n')

t.test('every reason is there', async t => {
  const reasons = new Set([...code.matchAll(/\breason: '([a-z0-9-]+)'/g)].map(([, word = '']) => word))
  for (const word of DIRECTORY_REASONS) reasons.add(word)
  for (const [, word = ''] of code.matchAll(/\{ refusal: '([a-z0-9-]+)' \}/g)) reasons.add(word)
  t.ok(reasons.size > 150)
  for (const word of reasons) if (word !== 'bad-path') t.ok(docs.includes(`\`${word}\``), word)
})

t.test('no reason is there that the gateway does not know', async t => {
  const [, tables = ''] = /## Reasons\n([\s\S]*?)## Warnings and errors/.exec(docs) ?? []
  const words = [...tables.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = '']) => cell.match(/[a-z0-9-]{3,}/g) ?? [])
  t.ok(words.length > 130)
  for (const word of words) t.ok(code.includes(`'${word}'`) || /^(?:ok|idle)$/.test(word), word)
})

t.test('every line that says that something is well again is there', async t => {
  const ends = [...code.matchAll(/'([a-z][^';\n]{12,}\b(?:again|replaced))'/g)].map(([, message = '']) => message)
  t.ok(ends.length > 8)
  for (const message of ends) t.ok(docs.includes(message), message)
})

t.test('every warning and error is there', async t => {
  const calls = code.matchAll(/\blog\??\.(?:warn|error|fatal)\(\s*(?:(?:\{[^}]*\}|[\w.]+),\s*)?'([^'\n]+)'/g)
  const messages = new Set([...calls].map(([, message = '']) => message))
  t.ok(messages.size > 30)
  for (const message of messages) {
    // Of long ones the beginning, up to the first full stop or colon.
    const [start = ''] = /^[^.;:]+/.exec(message) ?? []
    t.ok(docs.includes(message) || docs.includes(start) || message.startsWith('these people'), message)
  }
})
