// The package that `npm pack` makes works in an empty directory, without the repository.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { baseEnv, routeFile } from '../support/gateway-process.ts'
import { postLoginAgain } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { makeFolder } from '../support/server-process.ts'
import { until } from '../support/until.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const PATH = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`
const run = (folder: string, command: string, args: readonly string[]) =>
  promisify(execFile)(command, args, { cwd: folder, env: { PATH, HOME: process.env.HOME } })

const home = makeFolder(t, 'package')
await run(ROOT, 'npm', ['pack', '--silent', '--pack-destination', home])
const [file = ''] = readdirSync(home)
await run(home, 'npm', ['install', '--offline', '--no-audit', '--no-fund', `./${file}`])
const installed = join(home, 'node_modules/portaria')
const command = join(home, 'node_modules/.bin/portaria')

t.test('it is one package, which says what is inside', async t => {
  t.same(
    readdirSync(join(home, 'node_modules')).filter(name => !name.startsWith('.')),
    ['portaria']
  )
  const list = JSON.parse(readFileSync(join(installed, 'dist/sbom.cdx.json'), 'utf8'))
  const licences = readFileSync(join(installed, 'dist/LICENCES.txt'), 'utf8')
  t.ok(list.components.length > 50)
  const refs = list.components.map((one: { purl: string }) => one.purl)
  t.equal(new Set(refs).size, refs.length)
  for (const { name, version } of list.components) t.ok(licences.includes(`${name} ${version} (`), name)
  for (const name of ['fastify', 'typeorm', 'preact', '@electric-sql/pglite'])
    t.ok(
      list.components.some((one: { name: string }) => one.name === name),
      name
    )
  t.ok(!readdirSync(join(installed, 'dist')).some(name => name.endsWith('.ts')))
  const named = ['grafana/alerts.yaml', 'grafana/portaria.json', 'upstream-config/schema.json']
  for (const part of ['dist/demo.js', 'dist/demo-pages/socket.io.js', 'deploy/systemd/portaria.service', ...named])
    t.ok(existsSync(join(installed, part)), part)
})

t.test('its pages link to nothing that it leaves out', async t => {
  const pages = readdirSync(installed, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.md'))
  for (const page of pages) {
    for (const [, target = ''] of readFileSync(join(installed, page), 'utf8').matchAll(/\]\((?!https?:)([^)#]+)/g))
      t.ok(existsSync(join(installed, dirname(page), target)), `${page}: ${target}`)
  }
  t.ok(pages.includes('test/security-catalogue.md'), 'which SECURITY.md names')
})

t.test('its commands work; several workers of the build take a login and serve pages', async t => {
  const version = (await run(home, command, ['--version'])).stdout.trim()
  t.equal(version, JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version)
  const [postgres, redis, ldap] = await Promise.all([startPostgres(t), startRedis(t), startOpenLdap(t)])
  const { folder } = routeFile(t, { routes: [] })
  const stores = { DATABASE_URL: postgres.url, REDIS_URL: redis.url }
  const settings = { ...baseEnv(folder), ...stores, ...ldap.env, PORT: '0', WORKERS: '2' }
  writeFileSync(
    join(home, '.env'),
    Object.entries(settings)
      .map(([name, value]) => `${name}='${value}'\n`)
      .join('')
  )
  t.match((await run(home, command, ['check'])).stdout, /settings: fine/)
  const gateway = spawn(command, ['start'], { cwd: home, env: { PATH }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => gateway.kill('SIGKILL'))
  let log = ''
  gateway.stdout.on('data', chunk => {
    log += chunk
  })
  await until(() => log.includes('"listening"'))
  const url = `http://127.0.0.1:${/"port":(\d+)[^\n]*"listening"/.exec(log)?.[1]}`
  const world = { fetch: (path: string, asked?: RequestInit) => fetch(url + path, asked) }
  t.equal((await postLoginAgain(world, 'ana')).status, 200)
  const html = await (await fetch(`${url}/auth/console`)).text()
  const [, script = '', integrity = ''] = /<script type="module" src="([^"]+)" integrity="([^"]+)"/.exec(html) ?? []
  t.match(integrity, /^sha384-/)
  const answer = await fetch(url + script, { headers: { 'accept-encoding': 'gzip' } })
  t.equal(answer.headers.get('content-encoding'), 'gzip')
  const ended = once(gateway, 'exit')
  gateway.kill('SIGTERM')
  t.same(await ended, [0, null])
})

t.test('with a Node.js that is too old, a command could not run (2), and a start must be mended (1)', async t => {
  const old = join(home, 'old.cjs')
  writeFileSync(old, "Object.defineProperty(process.versions, 'node', { value: '20.19.0' })\n")
  for (const [word, code] of [
    ['check', 2],
    ['start', 1]
  ] as const) {
    const launched = run(home, 'node', ['--require', old, join(installed, 'dist/portaria.cjs'), word])
    await t.rejects(launched, { code, stderr: /needs Node 22.19 or later/ })
  }
})
