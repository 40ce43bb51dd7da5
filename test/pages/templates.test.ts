// The templates of the pages pass what elements and components take: TypeScript reads them as TSX.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { templatesAsTsx } from '../support/templates-as-tsx.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const FOLDER = join(ROOT, 'gateway/pages/browser')
const CONFIG = {
  extends: join(FOLDER, 'tsconfig.json'),
  compilerOptions: { jsx: 'react-jsx', jsxImportSource: 'preact', noEmit: true, exactOptionalPropertyTypes: false },
  include: ['./*']
}

/** What the compiler says about the modules, changed by `change`. */
const complaints = async (t: Test, change = (source: string) => source): Promise<string[]> => {
  const folder = t.testdir({ 'tsconfig.json': JSON.stringify(CONFIG) })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const files = readdirSync(FOLDER).filter(name => name.endsWith('.ts'))
  const sources = new Map(files.map(file => [file, change(readFileSync(join(FOLDER, file), 'utf8'))]))
  const nameOf = (file: string) => (sources.get(file)?.includes('html`') ? `${file}x` : file)
  for (const [file, source] of sources) {
    const text = nameOf(file) === file ? source : templatesAsTsx(source)
    writeFileSync(
      join(folder, nameOf(file)),
      text.replace(/'\.\/([\w-]+\.ts)'/g, (_, imported: string) => `'./${nameOf(imported)}'`)
    )
  }
  const compiler = join(ROOT, 'node_modules/.bin/tsc')
  const text = await new Promise<string>(resolve =>
    execFile(compiler, ['-p', folder, '--pretty', 'false'], { cwd: folder }, (_error, stdout) => resolve(stdout))
  )
  return text.split('\n').filter(line => /^\S.*error TS/.test(line))
}

t.test('every template passes what is taken', async t => {
  t.same(await complaints(t), [])
})

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: this is the text of templates
t.test('a property that a component does not take, a missing one and a misspelt attribute are found', async t => {
  const found = await complaints(t, source =>
    source
      .replace('<${Icon} app=${app} />', '<${Icon} ap=${app} />')
      .replace('<${Name} of=${nameOf(user)} />', '<${Name} />')
      .replace('<input id="token-name"', '<input id="token-name" maxLenght="3"')
  )
  t.match(
    found.find(line => line.startsWith('apps.tsx')),
    "Type '{ ap: AppItem; }' is not assignable"
  )
  t.match(
    found.find(line => line.startsWith('page.tsx')),
    "Type '{}' is not assignable to type 'IntrinsicAttributes & { of: string; }'"
  )
  t.match(
    found.find(line => line.startsWith('account-tokens.tsx')),
    /maxLenght/
  )
})
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: this is the text of templates
