// The templates of the pages pass what elements and components take: TypeScript reads them as TSX.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { templatesAsTsx } from '../support/templates-as-tsx.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'gateway/pages/browser')
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
