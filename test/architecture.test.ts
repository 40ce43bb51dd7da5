import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const ROOT = resolve(import.meta.dirname, '..')

// Imports only point down, and folders of one row never import each other.
const ROWS: readonly (readonly string[])[] = [
  ['assembly', 'cli'],
  ['access', 'forward', 'login', 'admin', 'pages'],
  ['routes', 'tokens', 'store'],
  ['migrations'],
  ['vocabulary']
]

// Root files that know nothing of the folders; every other root file assembles.
const VOCABULARY =
  /^(?:errors|identity|exchange|request-head|header-kinds|ip-network|settings.*|user-schema|refusal-page|one-write|write-batch|redaction|log-sink|logging|trace-context)\.ts$/

// One home per library; `import type` is free.
const HOMES: Record<string, RegExp> = {
  jose: /^gateway\/tokens\//,
  ldapts: /^gateway\/login\/directory\.ts$/,
  'openid-client': /^gateway\/login\/oauth-client\.ts$/,
  ioredis: /^gateway\/store\/redis[a-z-]*\.ts$/,
  typeorm: /^(?:gateway\/store|migrations)\//,
  pg: /^gateway\/store\//,
  '@electric-sql/pglite': /^gateway\/store\/embedded-/,
  '@electric-sql/pglite-socket': /^gateway\/store\/embedded-/,
  yaml: /^gateway\/(?:routes|settings)/,
  ajv: /^gateway\/(?:routes|settings)/,
  ws: /^gateway\/forward\//,
  commander: /^gateway\/cli\//,
  'prom-client': /^gateway\/(?:metrics|ops)[a-z-]*\.ts$/,
  '@opentelemetry/api': /^gateway\/tracing\.ts$/,
  '@opentelemetry/sdk-trace': /^gateway\/tracing\.ts$/,
  '@opentelemetry/resources': /^gateway\/tracing\.ts$/,
  '@opentelemetry/exporter-trace-otlp-proto': /^gateway\/tracing\.ts$/,
  pino: /^gateway\/logging\.ts$/,
  fastify: /^gateway\/own-endpoints\.ts$/,
  '@fastify/swagger': /^gateway\/own-endpoints\.ts$/
}

const files = ['gateway', 'migrations'].flatMap(folder =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts') && !file.includes('browser/'))
    .map(file => join(folder, file))
)

/** What a file imports at run time. */
const imports = (file: string): string[] => {
  const source = readFileSync(join(ROOT, file), 'utf8')
  const found: string[] = []
  for (const [, what = '', from = ''] of source.matchAll(
    /^(?:import|export)\s+(?!type\b)([^;'"]*?)\s*from\s+'([^']+)'/gms
  )) {
    const names = /^\{(.*)\}$/s.exec(what.trim())?.[1]
    const onlyTypes = names?.split(',').every(name => name.trim() === '' || name.trim().startsWith('type ')) ?? false
    if (!onlyTypes) found.push(from)
  }
  for (const [, from = ''] of source.matchAll(/\bimport\('([^']+)'\)/g)) found.push(from)
  return found
}

const placeOf = (file: string): string => {
  const [top = '', second = ''] = file.split('/')
  if (top === 'migrations') return 'migrations'
  if (!second.endsWith('.ts')) return second
  return VOCABULARY.test(second) ? 'vocabulary' : 'assembly'
}

const rowOf = (place: string): number => ROWS.findIndex(row => row.includes(place))

t.test('imports point down, from the process to the vocabulary', async t => {
  for (const file of files) {
    for (const from of imports(file).filter(name => name.startsWith('.'))) {
      const target = relative(ROOT, resolve(ROOT, dirname(file), from))
      const [a, b] = [placeOf(file), placeOf(target)]
      if (a === b) continue
      t.ok(rowOf(a) !== -1 && rowOf(b) !== -1, `${file} and ${target} have a place`)
      t.ok(rowOf(a) < rowOf(b) || a === 'cli', `${file} (${a}) may import ${target} (${b})`)
    }
  }
})

t.test('each library has one home', async t => {
  for (const file of files) {
    for (const library of imports(file)) {
      const home = HOMES[library]
      if (home !== undefined) t.match(file, home, `${library} in ${file}`)
    }
  }
})

t.test('the environment is read in one place', async t => {
  for (const file of files) {
    if (/^gateway\/(?:settings|main|cli\/)/.test(file)) continue
    t.notMatch(readFileSync(join(ROOT, file), 'utf8'), /process\.env/, file)
  }
})

t.test('every file says in its first line what holds after it did its work', async t => {
  for (const file of files) t.match(readFileSync(join(ROOT, file), 'utf8').split('\n', 1)[0], /^\/\/ .+[.:]$/, file)
})

t.test('dependencies stay above the floors below which attacks are known', async t => {
  // SM-30, AD-23
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version?: string; resolved?: string; dev?: boolean }>
  }
  const floors: Record<string, string> = {
    undici: '7.29.0',
    ws: '8.21.0',
    fastify: '5.12.2',
    'engine.io': '6.6.8',
    'socket.io-parser': '4.2.7',
    node: '24.14.1',
    typeorm: '1.1.0'
  }
  const numbers = (version: string) => version.split('.').map(part => Number.parseInt(part, 10))
  const atLeast = (version: string, floor: string) => {
    const [a, b] = [numbers(version), numbers(floor)]
    for (let i = 0; i < 3; i++) if (a[i] !== b[i]) return (a[i] ?? 0) > (b[i] ?? 0)
    return true
  }
  for (const [path, { version = '0.0.0', resolved, dev = false }] of Object.entries(lock.packages)) {
    const name = path.slice(path.lastIndexOf('node_modules/') + 13)
    const floor = floors[name]
    if (floor !== undefined && !dev) t.ok(atLeast(version, floor), `${path} ${version} is at least ${floor}`)
    t.notMatch(resolved ?? '', /^https?:/, `${path} names no download host`)
  }
})
