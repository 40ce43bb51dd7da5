// What the README and the docs name exists and works.
import { execFile } from 'node:child_process'
import { existsSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
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
