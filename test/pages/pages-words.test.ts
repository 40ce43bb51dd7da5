// Pages speak Portuguese and English alike: whatever they say is among the words of both.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createChecks } from '../../gateway/observe/health.ts'

const FOLDER = join(import.meta.dirname, '../../gateway/pages/browser')
const sources = [...readdirSync(FOLDER).filter(file => file.endsWith('.ts')), '../words-refusal.ts'].map(file => ({
  file,
  source: readFileSync(join(FOLDER, file), 'utf8')
}))

const TEXT = String.raw`(?:'((?:[^'\\]|\\.)*)'|"([^"]*)")`
const ROW = new RegExp(String.raw`^ {2}'?([\w.-]+)'?: \[\s*${TEXT},\s*${TEXT}\s*\],?$`, 'gm')

/** The texts of a file, by key. */
const wordsOf = (source: string): [key: string, pt: string, en: string][] =>
  [...source.matchAll(ROW)].map(([, key = '', pt, otherPt, en, otherEn]) => [
    key,
    pt ?? otherPt ?? '',
    en ?? otherEn ?? ''
  ])

/** The keys of one table of the console's words. */
const tableOf = (name: string): string[] => {
  const words = sources.find(({ file }) => file === 'words-console.ts')?.source ?? ''
  const [, rows = ''] = new RegExp(`const ${name} = [^{]*\\{(.*?)\\n\\}`, 's').exec(words) ?? []
  return wordsOf(rows)
    .map(([key]) => key)
    .sort()
}

const holes = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map(([hole]) => hole).sort()

t.test('both languages have the same words, with the same places for values', async t => {
  for (const { file, source } of sources.filter(({ file }) => /\bwords-/.test(file))) {
    const words = wordsOf(source)
    t.equal(words.length, source.match(/^ {2}\S+: \[/gm)?.length, `${file}: all of its words are read`)
    for (const [key, pt, en] of words) {
      t.ok(pt.trim() !== '' && en.trim() !== '', `${file} ${key}`)
      t.same(holes(pt), holes(en), `${file} ${key}`)
    }
  }
})

t.test('no page says anything that is not among the words', async t => {
  for (const { file, source } of sources) {
    for (const [, words] of source.matchAll(/>([^<>{}$`\n]*\p{L}{2}[^<>{}$`\n]*)<\//gu)) t.fail(`${file}: ${words}`)
    for (const [, name, value] of source.matchAll(/\b(aria-label|title|alt|label)="([^"]*)"/g))
      t.notMatch(value, /\p{L}/u, `${file}: ${name}`)
  }
})

t.test('every action on record has a name in both languages', async t => {
  const gateway = join(FOLDER, '../..')
  const recorded = new Set<string>()
  for (const file of readdirSync(gateway, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.includes('browser/')) continue
    const source = readFileSync(join(gateway, file), 'utf8')
    for (const [, one = '', other = one] of source.matchAll(
      /\baction(?:: | = \w+ \? )'([a-z.-]+)'(?: : '([a-z.-]+)')?/g
    )) {
      recorded.add(one).add(other)
    }
  }
  t.ok(recorded.size > 20)
  t.same(tableOf('actions'), [...recorded].sort())
})

t.test('every check of the status has a name in both languages', async t => {
  const known = {
    databaseOk: async () => true,
    limiter: () => ({ mode: 'memory' }),
    routes: () => ({ ok: true }),
    hasUpstreamDown: () => false,
    revocations: () => ({ stalenessMs: 0 }),
    isListening: () => true,
    clock: () => ({ state: 'ok' }),
    audit: () => ({ state: 'ok' }),
    provider: () => 'ok',
    certificates: () => [{ current: false }],
    directory: () => 'ok',
    directoryInsecure: false,
    addressesInsecure: true,
    grants: { state: () => 'ok' }
  } as unknown as Parameters<typeof createChecks>[0]
  const checks = Object.keys(await createChecks(known)())
  t.same(checks.sort(), tableOf('checkName'))
})
