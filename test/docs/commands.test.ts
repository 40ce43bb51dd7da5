// The commands that docs/operate.md and its neighbours name are those of the command line.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { portaria } from '../support/cli.ts'
import { ROOT } from '../support/running-demo.ts'
import { PAGES, readPage } from './pages.ts'

t.test('every command that the docs name exists, and every command is in docs/operate.md', async t => {
  const { stdout } = await portaria(['--help'])
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
  const path = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`
  const run = (line: string) =>
    promisify(execFile)(
      'sh',
      [
        '-euc',
        line
          .replace('npx portaria', 'npm run --silent portaria --')
          .replace(/(?<=[ =])\.env/, file)
          .replace(/check$/, `$& --env-file ${file}`)
      ],
      {
        cwd: ROOT,
        env: { PATH: path, HOME: process.env.HOME }
      }
    )
  await run(make)
  await t.rejects(run(check), { code: 1, stdout: /JWT_SECRET/ })
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace(/^JWT_SECRET=$/m, `JWT_SECRET=${'0123456789abcdef'.repeat(4)}`)
  )
  t.match((await run(check)).stdout, /\S/)
})
