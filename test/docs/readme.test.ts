// What the README and the docs name exists and works.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { portariaHere } from '../support/cli-here.ts'
import { ROOT, run, startDemo, temporaryFolder } from '../support/running-demo.ts'
import { PAGES, readPage, shellLinesOf } from './pages.ts'

const readme = readPage('README.md')
const scripts: Record<string, string> = JSON.parse(readPage('package.json')).scripts

t.test('the README begins with the two commands that everything starts from', async t => {
  for (const command of ['npm ci && npm run demo', 'npm ci && npm test'])
    t.ok(shellLinesOf('README.md').includes(command), command)
})

t.test('every npm script that the docs name exists', async t => {
  const named = [
    ...PAGES.map(readPage)
      .join('\n')
      .matchAll(/npm run (?:--\S+ )*([\w:-]+)/g)
  ].map(([, name = '']) => name)
  for (const name of new Set(named)) t.ok(scripts[name], name)
  for (const name of ['start', 'test']) t.ok(scripts[name], name)
})

t.test('every file that a script or the gate runs exists', async t => {
  for (const script of Object.values(scripts)) {
    const file = /^node (?:--\S+ )*(\S+\.ts)/.exec(script)?.[1]
    if (file !== undefined) t.ok(readPage(file).length > 0, file)
  }
  const gate = readPage('.ci/run')
  for (const command of ['npm ci', 'npm test', 'npm run --silent lint', 'npm run --silent typecheck'])
    t.match(gate, command)
})

t.test('from a fresh clone the demo comes up, and its lines do what the README says', async t => {
  const { path: temporary } = temporaryFolder(t)
  const clone = join(temporary, 'clone')
  await promisify(execFile)('git', ['clone', '--quiet', '--depth=1', `file://${ROOT}`, clone])
  // `npm ci` would fetch what lies here already.
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
  const demo = await startDemo(t, { temporary, cwd: clone })
  const statuses = []
  for (const line of demo.curlLines) statuses.push(/^HTTP\/1\.1 (\d+)/.exec((await run(line)).stdout)?.[1])
  t.same(statuses, ['200', '200', '403'])
  await demo.end('SIGINT')
  await demo.gone()
  const { stdout } = await run(`git -C '${clone}' status --porcelain`)
  t.equal(stdout.replace('?? node_modules\n', ''), '', 'nothing was written into the clone')
})

t.test('every file that a page of the docs links to exists', async t => {
  for (const page of PAGES) {
    for (const [, target = ''] of readPage(page).matchAll(/\]\((?!https?:)([^)#]+)/g)) {
      t.ok(existsSync(join(ROOT, dirname(page), target)), `${page}: ${target}`)
    }
  }
})

t.test('the README is short', async t => {
  t.ok(Buffer.byteLength(readme) <= 8 * 1024)
})

t.test('every command that the docs name exists, and every command is in docs/operate.md', async t => {
  const { stdout } = await portariaHere(['--help'])
  const known = [...stdout.matchAll(/^ {2}([a-z]+)\b.* {2,}/gm)]
    .map(([, name = '']) => name)
    .filter(name => name !== 'help')
  t.ok(known.length > 15)
  for (const page of [...PAGES, 'CHANGELOG.md'])
    for (const [, name = ''] of readPage(page).matchAll(/(?:^|[`$] ?|npx |portaria -- )portaria ([a-z][\w-]*)/gm))
      t.ok(known.includes(name), `${page}: ${name}`)
  const [, table = ''] = /## Commands\n([\s\S]*?)\n## /.exec(readPage('docs/operate.md')) ?? []
  for (const name of known) t.match(table, new RegExp(`\`${name}\\b`), name)
})

t.test('the first start: a file with every setting, which `check` refuses until JWT_SECRET is filled in', async t => {
  const [, block = ''] = /## The first start\n\n```sh\n([\s\S]*?)```/.exec(readPage('docs/operate.md')) ?? []
  const [make = '', check = ''] = block.split('\n')
  const file = join(t.testdir(), 'env')
  const PATH = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`
  const runHere = (line: string) => {
    const here = line.replace('npx portaria', 'npm run --silent portaria --').replace(/(?<=[ =])\.env/, file)
    const options = { cwd: ROOT, env: { PATH, HOME: process.env.HOME } }
    return promisify(execFile)('sh', ['-euc', here.replace(/check$/, `$& --env-file ${file}`)], options)
  }
  await runHere(make)
  await t.rejects(runHere(check), { code: 1, stdout: /JWT_SECRET/ })
  const secret = `JWT_SECRET=${'0123456789abcdef'.repeat(4)}`
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^JWT_SECRET=$/m, secret))
  t.match((await runHere(check)).stdout, /\S/)
})
