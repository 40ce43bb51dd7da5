// Every line of shell in the README and the docs is run, here or by a test that is named, or is one of those that no test can run.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parseAllDocuments, parse as parseYaml } from 'yaml'
import { VARIABLES } from '../../gateway/settings/table.ts'
import { APPS } from '../../tools/lab/apps/apps.ts'
import { portariaHere } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { ROOT } from '../support/running-demo.ts'
import { openStore, person } from '../support/store.ts'
import { blocksOf, PAGES, readPage, shellLinesOf } from './pages.ts'

/** Applications of the lab are started with the lines of their recipes. */
const startsAnApp = new Set(APPS.map(({ recipe }) => `docs/recipes/${recipe.split('#')[0]}.md`))

const lines = PAGES.filter(page => !startsAnApp.has(page)).flatMap(shellLinesOf)

/** Commands in the samples for CI systems: whole scripts. */
const scripts = PAGES.flatMap(page =>
  blocksOf(page, 'yaml').flatMap(block => textsIn(parseYaml(block, { logLevel: 'silent' })))
).filter(text => /\bcurl /.test(text))

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

const isSetting = (line: string) => /^[A-Z][A-Z0-9_]*=(?!\$\()\S*(?:'[^']*')?$/.test(line)

/** By the test that runs them, or a part of them; the lab runs with real tools, outside of the gate. */
const ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  'test/docs/readme.test.ts': [
    'npm ci && npm run demo',
    'npm ci && npm test',
    'npx portaria env > .env',
    'npx portaria check',
    'npx portaria start'
  ],
  'test/deploy/package.test.ts': ['npm install ./portaria-1.0.0.tgz'],
  'test/deploy/backup.test.ts': [
    'pg_dump --format=custom --no-owner --file=portaria.dump "$DATABASE_URL"',
    'pg_restore --no-owner --exit-on-error --single-transaction --dbname="$NEW_DATABASE_URL" portaria.dump',
    'DATABASE_URL="$NEW_DATABASE_URL" portaria audit verify'
  ],
  'tools/lab/lab.ts': [
    'git clone https://anything:$TOKEN@gateway.example/git/project.git',
    'git clone https://me:$TOKEN@gateway.example/git/project.git',
    `npm config set "//gateway.example/npm/:_auth" "$(printf 'me:%s' "$TOKEN" | base64 -w0)"`,
    'npm install --registry https://gateway.example/npm/',
    'printf %s "$TOKEN" | docker login --username me --password-stdin gateway.example'
  ]
}

/** They change the machine or need a cluster: the shell reads them, and what they name exists. */
const NOT_RUN = [
  'npm install --prefix /opt/portaria portaria-1.0.0.tgz',
  'install -d -m 700 /etc/portaria/secrets',
  '(umask 077; /opt/portaria/node_modules/.bin/portaria env > /etc/portaria/portaria.env)',
  'openssl rand -hex 32 > /etc/portaria/secrets/jwt-secret',
  'printf %s "$DATABASE_URL" > /etc/portaria/secrets/database-url',
  'printf %s "$REDIS_URL" > /etc/portaria/secrets/redis-url',
  'cp /opt/portaria/node_modules/portaria/deploy/systemd/portaria.* /etc/systemd/system/',
  'systemctl daemon-reload && systemctl enable --now portaria.socket portaria.service',
  'kubectl create namespace portaria',
  'kubectl -n portaria create secret generic portaria-secrets --from-literal=jwt-secret="$(openssl rand -hex 32)" --from-literal=database-url="$DATABASE_URL" --from-literal=redis-url="$REDIS_URL"',
  'helm upgrade --install portaria deploy/helm/portaria --namespace portaria --values my-values.yaml'
]

const runHere = lines.filter(line => /\bcurl /.test(line) || /^portaria (?:client|explain)/.test(line))

t.test('every line is run here, run by another test, or known to be run by none', async t => {
  const known = new Set([...runHere, ...Object.values(ELSEWHERE).flat(), ...NOT_RUN])
  const isScript = (line: string) =>
    /^(?:(?:WORLDS_SEED=7 )?npm (?:run|test)|node_modules\/\.bin\/node test\/)/.test(line)
  for (const line of lines) if (!isSetting(line)) t.ok(known.has(line) || isScript(line), line)
  for (const line of known) t.ok(lines.includes(line), `the docs still say: ${line}`)
  for (const file of Object.keys(ELSEWHERE)) t.ok(existsSync(join(ROOT, file)), file)
  const settings = new Set(VARIABLES.flatMap(({ name }) => [name, `${name}_FILE`]))
  for (const line of lines.filter(isSetting)) t.ok(settings.has(line.split('=')[0] ?? ''), line)
})

t.test('a shell can read every line', async t => {
  await t.resolves(promisify(execFile)('bash', ['-nc', [...lines, ...scripts].join('\n')]))
})

t.test('what the lines for systemd and Kubernetes name exists', async t => {
  const unit = readPage('deploy/systemd/portaria.service')
  for (const [, name = ''] of NOT_RUN.join('\n').matchAll(/\/etc\/portaria\/([^\s)]+)/g))
    if (name !== 'secrets') t.ok(unit.includes(`/etc/portaria/${name}`), name)
  t.match(unit, /^ExecReload=/m, 'systemctl reload portaria')
  const documents = parseAllDocuments(readPage('deploy/kubernetes/portaria.yaml')).map(document => document.toJS())
  const manifest = JSON.stringify(documents)
  const secret = NOT_RUN.find(line => line.includes('create secret')) ?? ''
  t.match(manifest, /"secretName":"portaria-secrets"/)
  for (const [, key = ''] of secret.matchAll(/--from-literal=([\w-]+)=/g)) t.ok(manifest.includes(key), key)
  t.ok(documents.some(({ metadata }) => metadata.namespace === 'portaria'))
})

t.test('the lines for curl and the command line do what the pages say', async t => {
  const postgres = await startPostgres(t)
  const { users } = await openStore(t, postgres, postgres.url)
  const orders = createServer((request, response) => response.end(JSON.stringify({ path: request.url })))
  const url = `http://127.0.0.1:${await listen(t, orders)}`
  const world = await startGateway(t, {
    postgres,
    config: { upstreams: { orders: { url } }, routes: [{ path: '/api/*', upstream: 'orders' }] }
  })
  const env = { DATABASE_URL: postgres.url, JWT_SECRET: TEST_SECRET, UPSTREAM_CONFIG: world.folder }

  const made = runHere
    .filter(line => line.startsWith('portaria'))
    .map(async line => {
      const args = line.replace('203.0.113.0/24', '127.0.0.0/8').split(' ').slice(1)
      return portariaHere([...args, '--json'], { env })
    })
  const results = await Promise.all(made)
  for (const { code, stderr } of results) t.equal(code, 0, stderr)
  const client = results
    .map(({ json }) => json<{ clientId?: string; clientSecret?: string }>())
    .find(one => one.clientId)

  const { user } = await users.syncPerson(person('ana'))
  await users.createArea({ id: null, username: 'test' }, 'Sul')
  const access = { profiles: ['Agente'], areas: ['Sul'], areaPrincipal: 'Sul' }
  const { version } = await users.setAccess({ id: null, username: 'test' }, user.id, access)
  const claims = { auth_time: Math.floor(Date.now() / 1000), ver: version }
  const LOGIN_TOKEN = await world.tokenFor(
    { id: user.id, username: 'ana', areas: ['Sul'], areaPrincipal: 'Sul' },
    claims
  )
  const folder = t.testdir({})
  const GITHUB_ENV = join(folder, 'env')
  writeFileSync(GITHUB_ENV, '')
  const shell = (script: string) =>
    promisify(execFile)('bash', ['-euo', 'pipefail', '-c', `curl() { command curl -fsS "$@"; }\n${script}`], {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        CLIENT_ID: client?.clientId,
        CLIENT_SECRET: client?.clientSecret,
        TOKEN: LOGIN_TOKEN,
        LOGIN_TOKEN,
        GITHUB_ENV
      }
    })
  // The date of the page passes some day.
  const inTime = new Date(Date.now() + 30 * 86_400_000).toISOString()
  const all = [...runHere.filter(line => /\bcurl /.test(line)), ...scripts]
  t.ok(all.length > 5)
  for (const script of all) {
    const filled = script.replaceAll('https://gateway.example', world.url).replace('2027-01-31T00:00:00Z', inTime)
    const { stdout } = await shell(`${filled}\n[ -z "\${token:-}" ] || [ "$token" != null ]`).catch(error => {
      t.fail(script, { error: String(error) })
      return { stdout: '' }
    })
    if (script.includes('/auth/tokens')) t.match(JSON.parse(stdout), { name: 'backup', token: /^pt_/ })
    if (script.startsWith('curl -u')) t.match(JSON.parse(stdout), { token_type: 'Bearer', expires_in: Number })
    if (script.includes('/api/orders/7')) t.match(JSON.parse(stdout), { path: '/api/orders/7' })
  }
  t.match(readFileSync(GITHUB_ENV, 'utf8'), /^TOKEN=[\w-]+\.[\w-]+\.[\w-]+$/m)
})
