// Pages speak Portuguese and English alike: whatever they say is among the words of both.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createChecks } from '../../gateway/observe/health.ts'

const FOLDER = join(import.meta.dirname, '../../gateway/pages/browser')
const sources = readdirSync(FOLDER)
  .filter(file => file.endsWith('.ts'))
  .map(file => ({ file, source: readFileSync(join(FOLDER, file), 'utf8') }))

const TEXT = String.raw`(?:'((?:[^'\\]|\\.)*)'|"([^"]*)")`
const ROW = new RegExp(String.raw`^ {2}'?([\w.-]+)'?: \[\s*${TEXT},\s*${TEXT}\s*\],?$`, 'gm')

/** The texts of a file, by key. */
const wordsOf = (source: string): [key: string, pt: string, en: string][] =>
  [...source.matchAll(ROW)].map(([, key = '', pt, otherPt, en, otherEn]) => [
    key,
    pt ?? otherPt ?? '',
    en ?? otherEn ?? ''
  ])

const holes = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map(([hole]) => hole).sort()

t.test('both languages have the same words, with the same places for values', async t => {
  for (const { file, source } of sources.filter(({ file }) => file.startsWith('words-'))) {
    const words = wordsOf(source)
    t.equal(words.length, source.match(/^ {2}\S+: \[/gm)?.length, `${file}: all of its words are read`)
    for (const [key, pt, en] of words) {
      t.ok(pt.trim() !== '' && en.trim() !== '', `${file} ${key}`)
      t.same(holes(pt), holes(en), `${file} ${key}`)
    }
  }
})

/** What a file writes into pages literally: its templates without their expressions. */
const templatesOf = (source: string): string[] => {
  const found: string[] = []
  const readCode = (from: number, isNested: boolean): number => {
    let depth = 0
    for (let at = from; at < source.length; at++) {
      const letter = source[at]
      if (letter === "'" || letter === '"') {
        while (source[++at] !== letter) if (source[at] === '\\') at++
      } else if (letter === '`') at = readTemplate(at + 1, source.slice(at - 4, at) === 'html')
      else if (letter === '{') depth++
      else if (letter === '}' && depth-- === 0 && isNested) return at
    }
    return source.length
  }
  const readTemplate = (from: number, isPage: boolean): number => {
    let text = ''
    for (let at = from; at < source.length; at++) {
      if (source[at] === '`') {
        if (isPage) found.push(text)
        return at
      }
      if (source[at] === '\\') at++
      else if (source.startsWith('${', at)) {
        at = readCode(at + 2, true)
        text += '\0'
      } else text += source[at]
    }
    return source.length
  }
  readCode(0, false)
  return found
}

t.test('no page says anything that is not among the words', async t => {
  let templates = 0
  for (const { file, source } of sources) {
    const code = source
      .replace(/^\s*\/\/.*$/gm, '')
      .replace(/\/\*\*?.*?\*\//gs, '')
      .replace(/(?<=[=(,:]\s*|return )\/(?![/*])(?:[^/\n\\[]|\\.|\[[^\]\n]*\])+\/[a-z]*/g, "''")
    for (const template of templatesOf(code)) {
      templates++
      const visible = template.replace(/<[^>]*>/g, ' ')
      t.notMatch(visible, /\p{L}{2}/u, `${file}: ${visible.trim().slice(0, 80)}`)
      for (const [, name, value] of template.matchAll(/\b(aria-label|title|alt|label)="([^"]*)"/g)) {
        t.notMatch(value, /\p{L}/u, `${file}: ${name}`)
      }
    }
  }
  t.ok(templates > 100, `${templates} templates were read`)
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
  const words = sources.find(({ file }) => file === 'words-console.ts')?.source ?? ''
  const listed = wordsOf(/const actions = \{(.*?)\n\}/s.exec(words)?.[1] ?? '').map(([action]) => action)
  t.same(listed.sort(), [...recorded].sort())
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
  const view = sources.find(({ file }) => file === 'status-view.ts')?.source ?? ''
  const named = [...(/const CHECKS\b.*? = \{(.*?)\n\}/s.exec(view)?.[1] ?? '').matchAll(/^ {2}(\w+):/gm)]
  const checks = Object.keys(await createChecks(known)())
  t.same(checks.sort(), named.map(([, name]) => name).sort())
})
