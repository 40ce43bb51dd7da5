// The sources of the pages: what they say is among the words of Portuguese and of English, and their templates pass what elements
// and components take, since TypeScript reads them as TSX.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { createChecks } from '../../gateway/observe/health.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'gateway/pages/browser')
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

const CONFIG = {
  extends: join(FOLDER, 'tsconfig.json'),
  compilerOptions: { jsx: 'react-jsx', jsxImportSource: 'preact', noEmit: true, exactOptionalPropertyTypes: false },
  include: ['./*', join(ROOT, 'gateway/http/own-endpoints.ts')]
}

/** What would not be noticed otherwise. */
// biome-ignore-start lint/suspicious/noTemplateCurlyInString: this is the text of templates
const PLANTED = [
  "import { Name } from './console-parts.ts'",
  "import { html } from './render.ts'",
  'export const good = html`<p><${Name} of=${\'x\'} /> <input maxlength="3" /></p>`',
  "export const unknown = html`<${Name} of=${'x'} off=${'y'} />`",
  'export const missing = html`<p><${Name} /></p>`',
  'export const misspelt = html`<input maxLenght="3" />`'
].join('\n')
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: this is the text of templates

/** Where a string, comment or regular expression that begins at `at` ends; `at` itself if none does. */
const skipFrom = (source: string, at: number): number => {
  const rest = (pattern: RegExp): number => {
    pattern.lastIndex = at
    return pattern.test(source) ? pattern.lastIndex : at
  }
  switch (source[at]) {
    case "'":
      return rest(/'(?:[^'\\\n]|\\.)*'/y)
    case '"':
      return rest(/"(?:[^"\\\n]|\\.)*"/y)
    case '/': {
      const comment = rest(/\/\/[^\n]*|\/\*[\s\S]*?\*\//y)
      const mayBegin = /(?:^|[(,=:[!&|?{};+\n]|=>|return)\s*$/.test(source.slice(Math.max(0, at - 20), at))
      return comment > at || !mayBegin ? comment : rest(/\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y)
    }
    default:
      return at
  }
}

/** Code up to the `}` that closes the expression it stands in, or to its end. */
const readCode = (source: string, from: number): { readonly text: string; readonly end: number } => {
  let [text, depth, at] = ['', 0, from]
  while (at < source.length) {
    const letter = source[at] ?? ''
    const end = skipFrom(source, at)
    if (end > at) {
      text += source.slice(at, end)
      at = end
    } else if (letter === '`') {
      const isPage = text.endsWith('html')
      const read = isPage ? readTemplate(source, at + 1) : readText(source, at + 1)
      text = isPage ? `${text.slice(0, -4)}(${read.text})` : text + read.text
      at = read.end
    } else {
      if (letter === '{') depth++
      if (letter === '}' && depth-- === 0) return { text, end: at }
      text += letter
      at++
    }
  }
  return { text, end: at }
}

/** A template of plain text. */
const readText = (source: string, from: number): { readonly text: string; readonly end: number } => {
  let [text, at] = ['`', from]
  while (source[at] !== '`') {
    if (source.startsWith('${', at)) {
      const code = readCode(source, at + 2)
      text += `\${${code.text}}`
      at = code.end + 1
    } else {
      const length = source[at] === '\\' ? 2 : 1
      text += source.slice(at, at + length)
      at += length
    }
  }
  return { text: `${text}\``, end: at + 1 }
}

/** A template of a page, as a fragment. */
const readTemplate = (source: string, from: number): { readonly text: string; readonly end: number } => {
  const open: string[] = []
  let [text, at, isTag] = ['<>', from, false]
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(source)?.[0]
    at += found?.length ?? 0
    return found
  }
  const code = (): string => {
    const read = readCode(source, at + 2)
    at = read.end + 1
    return read.text
  }
  while (source[at] !== '`') {
    if (isTag) {
      if (take(/\/>/y)) {
        text += '/>'
        open.pop()
        isTag = false
      } else if (take(/>/y)) {
        text += '>'
        isTag = false
      } else if (take(/\.\.\.(?=\$\{)/y)) text += `{...${code()}}`
      else if (source.startsWith('${', at)) text += `{${code()}}`
      else if (take(/"(?=[^"]*\$\{)/y)) throw new Error(`an attribute of mixed parts: ${source.slice(at, at + 40)}`)
      else text += (take(/"[^"]*"|[\s\S]/y) ?? '').replace(/^"(-?\d+|true|false)"$/, '{$1}')
    } else if (take(/<\//y)) {
      take(/\/|[\w-]+/y)
      text += `</${open.pop()}`
      isTag = true
      take(/\s*(?=>)/y)
    } else if (take(/<(?=\$\{)/y)) {
      const name = code()
      text += `<${name}`
      open.push(name)
      isTag = true
    } else if (source[at] === '<') {
      const name = take(/<[\w-]+/y) ?? ''
      text += name
      open.push(name.slice(1))
      isTag = true
    } else if (source.startsWith('${', at)) text += `{${code()}}`
    else text += take(/[{}>]/y)?.replace(/./, sign => `{'${sign}'}`) ?? take(/[\s\S]/y)
  }
  return { text: `${text}</>`, end: at + 1 }
}

const templatesAsTsx = (source: string): string => {
  const { text, end } = readCode(source, 0)
  if (end !== source.length) throw new Error('a brace that nothing opens')
  // A lone type parameter of an arrow function would be an element.
  return text.replace(/<(\w+)>(?=\()/g, (whole, name: string, at: number) =>
    /= ?$/.test(text.slice(0, at)) ? `<${name},>` : whole
  )
}

const compile = (folder: string): Promise<string[]> =>
  new Promise(resolve => {
    const command = [join(ROOT, 'node_modules/.bin/tsc'), ['-p', folder, '--pretty', 'false']] as const
    execFile(...command, { cwd: folder }, (_error, stdout) =>
      resolve(stdout.split('\n').filter(line => /^\S.*error TS/.test(line)))
    )
  })

t.test('templates pass what is taken; unknown or missing properties and misspelt attributes are found', async t => {
  const files = readdirSync(FOLDER).filter(name => name.endsWith('.ts'))
  const sources = new Map(files.map(file => [file, readFileSync(join(FOLDER, file), 'utf8')]))
  sources.set('planted.ts', PLANTED)
  const folder = t.testdir({ 'tsconfig.json': JSON.stringify(CONFIG) })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const nameOf = (file: string) => (sources.get(file)?.includes('html`') ? `${file}x` : file)
  for (const [file, source] of sources) {
    const text = nameOf(file) === file ? source : templatesAsTsx(source)
    writeFileSync(
      join(folder, nameOf(file)),
      text
        .replace(/'\.\/([\w-]+\.ts)'/g, (_, imported: string) => `'./${nameOf(imported)}'`)
        .replaceAll("'../", `'${join(FOLDER, '..')}/`)
    )
  }
  const found = await compile(folder)
  const own = found.filter(line => !line.startsWith('planted.'))
  t.same(own, [])
  t.match(found, [
    /^planted\.tsx\(4,.*'\{ of: string; off: string; \}'/,
    /^planted\.tsx\(5,.*'\{\}'/,
    /^planted\.tsx\(6,.*maxLenght/
  ])
  t.equal(found.length, 3)
})
