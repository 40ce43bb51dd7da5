// What the pages of the docs say about code, settings, routes, logs and errors is so, and what recipes tell to write is run.
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { DIRECTORY_REASONS } from '../../gateway/directory/failure.ts'
import { DROP, headerKind } from '../../gateway/http/fields.ts'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { APPS } from '../../tools/lab/apps/apps.ts'
import { startGateway } from '../support/gateway.ts'
import { recipeText } from '../support/recipe.ts'
import { tableOf } from '../support/route-files.ts'
import { ROOT } from '../support/running-demo.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { readPage } from './pages.ts'
import { TABLES, writtenTable } from './tables.ts'

t.test('the generated tables in the docs are those of the code', async t => {
  for (const [name, { page, text }] of Object.entries(TABLES)) {
    t.equal(writtenTable(name, page), text(), `${name}: \`npm run docs\` writes it`)
  }
})

t.test('every error code in the docs exists, and every code is in the docs', async t => {
  const codesOf = (file: string) => [...new Set(readPage(file).match(/GW_[A-Z_]+/g))].sort()
  t.same(codesOf('docs/errors.md'), codesOf('gateway/errors.ts'))
})

const logs = readPage('docs/logs.md')
const sources = readdirSync(join(ROOT, 'gateway'), { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts') && !file.startsWith('cli/') && !file.includes('browser/'))
  .map(file => readPage(join('gateway', file)))
const code = sources.join('\n')

/** Reasons that are members of a type, or are passed on by a function. */
const GIVEN = [
  /\{ refusal: '([a-z0-9-]+)' \}/g,
  /^ {2}\| '([a-z]+(?:-[a-z0-9]+)+)'$/gm,
  /\b(?:refused|violation|wrong|bad|TokenRefusal)\('([a-z]+(?:-[a-z]+)+)'/g
]

t.test('every reason is in docs/logs.md', async t => {
  const reasons = new Set([...code.matchAll(/\breason: '([a-z0-9-]+)'/g)].map(([, word = '']) => word))
  for (const word of DIRECTORY_REASONS) reasons.add(word)
  for (const pattern of GIVEN) for (const [, word = ''] of code.matchAll(pattern)) reasons.add(word)
  t.ok(reasons.size > 150)
  // Replaced by why the path is bad; the text of a close frame.
  for (const word of ['bad-path', 'idle']) reasons.delete(word)
  for (const word of reasons) t.ok(logs.includes(`\`${word}\``), word)
})

t.test('no reason is in docs/logs.md that the gateway does not know', async t => {
  const [, tables = ''] = /## Reasons\n([\s\S]*?)## Warnings and errors/.exec(logs) ?? []
  const words = [...tables.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = '']) => cell.match(/[a-z0-9-]{3,}/g) ?? [])
  t.ok(words.length > 130)
  for (const word of words) t.ok(code.includes(`'${word}'`), word)
})

t.test('every line that says that something is well again is in docs/logs.md', async t => {
  const ends = [...code.matchAll(/'([a-z][^';\n]{12,}\b(?:again|replaced))'/g)].map(([, message = '']) => message)
  t.ok(ends.length > 8)
  for (const message of ends) t.ok(logs.includes(message), message)
})

t.test('every warning and error is in docs/logs.md', async t => {
  const calls = code.matchAll(/\blog\??\.(?:warn|error|fatal)\(\s*(?:(?:\{[^}]*\}|[\w.]+),\s*)?'([^'\n]+)'/g)
  const messages = new Set([...calls].map(([, message = '']) => message))
  t.ok(messages.size > 30)
  for (const message of messages) {
    // Of long ones the beginning, up to the first full stop or colon.
    const [start = ''] = /^[^.;:]+/.exec(message) ?? []
    t.ok(logs.includes(message) || logs.includes(start) || message.startsWith('these people'), message)
  }
})

const operate = readPage('docs/operate.md')

// RV-108
t.test('docs/operate.md has an answer to each question of an installation with replicated ones', async t => {
  const [, postgres = ''] = /\n## (Postgres: fail-over[\s\S]*?)\n## /.exec(operate) ?? []
  for (const word of (
    'Several hosts¦loses commits¦synchronous_standby_names¦Poolers¦DATABASE_LISTEN_URL¦max_connections¦' +
    'A role without CREATE¦sslmode=verify-full¦idle_session_timeout¦Growth¦NTP¦transactions a second'
  ).split('¦'))
    t.match(postgres, word)
  for (const word of ['HAProxy', 'REDIS_CA_FILE', 'REDIS_PREFIX', 'An ACL user', 'client-output-buffer-limit'])
    t.match(operate, word)
})

t.test('the forms of the addresses are those that the settings take', async t => {
  const read = (env: Record<string, string>) => () => readSettings({ JWT_SECRET: TEST_SECRET, ...env })
  const [several = ''] = /postgres:\/\/user:password@a:5432,b:5432\/name/.exec(operate) ?? []
  t.doesNotThrow(read({ DATABASE_URL: several }))
  t.doesNotThrow(read({ DATABASE_URL: `${several}?sslmode=verify-full` }))
  t.doesNotThrow(read({ REDIS_URL: 'rediss://redis:6379/0' }))
  t.throws(read({ REDIS_URL: 'http://redis:6379/0' }))
})

const routes = readPage('docs/routes.md')

// RV-22
t.test('the examples of precedence are what the route table decides', async t => {
  const written = ['/api/*', '/api/:id', '/api/x', '/api/x {methods: [DELETE]}']
  const table = await tableOf(t, ...written)
  const narrowed = await tableOf(t, ...written.map(route => (route === '/api/x' ? '/api/x {methods: [GET]}' : route)))
  const rows = [...routes.slice(0, routes.indexOf('\n## ')).matchAll(/^\| (`[A-Z]+ .*?) \| (.*?) \| .* \|$/gm)]
  t.equal(rows.length, 6)
  for (const [, requests = '', decides = ''] of rows) {
    const asked = requests.includes('had') ? narrowed : table
    for (const [, method = '', path = ''] of requests.matchAll(/`([A-Z]+) ([^`]+)`/g)) {
      const match = asked.match(method, path)
      const expected = /^`([^`]+)`$/.exec(decides)?.[1] ?? 'method'
      t.equal(match.route?.id ?? match.refusal, expected, `${method} ${path}`)
    }
  }
})

// RV-38
t.test('docs/routes.md says what websocket forwards besides, and that no prefix is added', async t => {
  const text = routes.replaceAll(/\s+/g, ' ')
  t.match(text, /such a route also forwards ordinary requests, with all methods/)
  t.match(text, /remove a prefix of the path \(`stripPrefix`\), but not add one/)
  t.match(text, /host of a request chooses no route/)
})

t.test('every header that docs/routes.md says is removed from requests is removed', async t => {
  const [list = ''] = /^- the headers in which other gateways[\s\S]*?\n\n/m.exec(routes) ?? []
  const names = [...list.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name.replace('*', 'x'))
  t.ok(names.length > 60, `${names.length} names`)
  for (const name of names) t.equal(headerKind(name.replace(/^-/, 'X-Auth-')), DROP, name)
})

// RV-113
t.test('docs/routes.md says what applications with messages of more than 1 MB need', async t => {
  const text = routes.replaceAll(/\s+/g, ' ')
  t.match(text, /data to the browser in one message.*Streamlit, NiceGUI.*`websocket: \{ maxMessage: 64MB \}`/)
  const table = await tableOf(t, '/app/* {websocket: {maxMessage: 64MB}}')
  t.equal(table.match('GET', '/app').route?.websocket?.maxMessageBytes, 64 * 1024 * 1024)
})

const ownFrontend = readPage('docs/login/own-frontend.md')
const script = /```js\n([\s\S]*?)```/.exec(ownFrontend)?.[1] ?? ''

t.test('the script of docs/login/own-frontend.md takes only a login that its tab has begun', async t => {
  const login = { token: 'a.b.c', user: { name: 'Inês Conceição 𝔘' } }
  const addresses: string[] = []
  const run = new Function('location', 'history', 'sessionStorage', `${script}; startLogin('/start'); return login`)
  const history = { replaceState: (_state: null, _title: string, address: string) => addresses.push(address) }
  const kept = new Map<string, string>()
  const storage = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => kept.set(name, value),
    removeItem: (name: string) => kept.delete(name)
  }
  const assign = (address: string) => addresses.push(address)
  const at = (hash: string) => run({ hash, pathname: '/login', assign }, history, storage)
  const arrived = `#auth=${Buffer.from(JSON.stringify(login)).toString('base64url')}`
  t.equal(at(arrived), undefined, 'a link to somebody else')
  t.same(at(arrived), login)
  t.equal(at(''), undefined)
  t.same(addresses, ['/login', '/start', '/login', '/start', '/login', '/start'])
})

t.test('the endpoints of docs/login/own-frontend.md exist', async t => {
  const gateway = await startGateway(t)
  const endpoints = [...ownFrontend.matchAll(/^\| `(GET|POST) (\/auth\/[^`]+)`/gm)]
  t.equal(endpoints.length, 6)
  for (const [, method = '', path = ''] of endpoints) {
    const { status } = await gateway.fetch(path, { method, redirect: 'manual' })
    t.notOk([404, 405, 500].includes(status), `${method} ${path} is ${status}`)
  }
})

for (const file of readdirSync(join(ROOT, 'docs/migrate'))) {
  const page = file.replace('.md', '')
  t.test(`the route file for those who come from ${page} loads`, async t => {
    const text = /^## After\n[\s\S]*?^```yaml\n(.*?)^```/ms.exec(recipeText(`../migrate/${page}`))?.[1] ?? ''
    t.match(text, /^routes:/m)
    const folder = t.testdir({})
    writeFileSync(join(folder, 'routes.yaml'), text)
    await t.resolves(loadRoutes(folder, ownRoutes()))
  })
}

// Every block of configuration in docs/recipes is run as it stands there, by the lab or by a test.
const runners = [
  ...readdirSync(join(ROOT, 'tools/lab')).flatMap(file => (file.endsWith('.ts') ? [`tools/lab/${file}`] : [])),
  'test/forward/forward-auth-nginx.test.ts'
].map(readPage)

/** By whom the pages are run that no system of the lab has; shell is the matter of shell-lines.test.ts. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  kubernetes: 'test/deploy/kubernetes.test.ts',
  systemd: 'test/deploy/kubernetes.test.ts',
  scripts: 'test/docs/shell-lines.test.ts'
}

/** Grafana itself is not to be had: its settings are not run, only the routes for it. */
const NOT_RUN = ['grafana ini']

/** Blocks that applications of the lab run: their routes, their command and their files. */
const ofApps = APPS.flatMap(({ recipe, files = {} }) => {
  const [page = ''] = recipe.split('#')
  const blocks = Object.values(files).flatMap(({ block }) => (block === undefined ? [] : [block]))
  return [...blocks, 'yaml'].map(language => `${page} ${language}`)
})

const namesOf = (page: string) => new RegExp(`(?:recipe: |NAME = |'|\\()'?${page}'`)

t.test('every recipe is a system of the lab, or run by a test that is named', async t => {
  const index = readPage('docs/recipes/README.md')
  const pages = readdirSync(join(ROOT, 'docs/recipes'))
    .map(file => file.replace(/\.md$/, ''))
    .filter(page => page !== 'README')
  t.same(
    pages.filter(page => !index.includes(`(${page}.md`)),
    [],
    'the index names every page'
  )
  const notRun: string[] = []
  for (const page of pages) {
    const languages = new Set(
      [...readPage(`docs/recipes/${page}.md`).matchAll(/^```(\w+)$/gm)].map(([, name = '']) => name)
    )
    languages.delete('sh')
    for (const language of [...languages]) if (ofApps.includes(`${page} ${language}`)) languages.delete(language)
    if (languages.size === 0) continue
    const elsewhere = ELSEWHERE[page]
    if (elsewhere !== undefined) {
      t.match(readPage(elsewhere), page === 'scripts' ? /scripts/ : new RegExp(`deploy/${page}`), page)
      continue
    }
    const mine = runners.filter(text => namesOf(page).test(text))
    t.ok(mine.length > 0, `${page} is run`)
    for (const language of languages) {
      // `lab.gateway` reads the routes.
      const isRead = language === 'yaml' || mine.some(text => new RegExp(`recipeBlock\\([^)]*'${language}'`).test(text))
      if (!isRead) notRun.push(`${page} ${language}`)
    }
  }
  t.same(notRun, NOT_RUN)
})
