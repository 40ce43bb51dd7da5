// The code lies where docs/architecture.md says: files have places, imports point down, and nothing is left over.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const ROOT = resolve(import.meta.dirname, '..')

// Imports, those of types included, only point down; what stands in one row never imports its neighbours.
const ROWS: readonly (readonly string[])[] = [
  ['main'],
  ['cli'],
  ['workers'],
  ['gateway'],
  ['process-state'],
  ['forwarding'],
  ['app', 'endpoints'],
  ['start-tokens'],
  ['stores'],
  ['account', 'admin', 'cloud', 'pages', 'socketio'],
  ['observe'],
  ['login', 'websocket'],
  ['forward', 'directory', 'explain'],
  ['access', 'upstream', 'route-files', 'store'],
  ['tokens', 'migrations', 'listener'],
  ['http'],
  ['instances', 'limits', 'routes'],
  ['redis'],
  ['settings'],
  ['values'],
  ['errors', 'identity']
]

// One home per library; `import type` is free of it.
const HOMES: Record<string, RegExp> = {
  jose: /^gateway\/cloud\//,
  ldapts: /^gateway\/directory\/ldap-connection\.ts$/,
  'openid-client': /^gateway\/cloud\/client\.ts$/,
  ioredis: /^gateway\/redis\//,
  typeorm: /^(?:gateway\/store|migrations)\//,
  pg: /^gateway\/store\//,
  '@electric-sql/pglite': /^gateway\/store\/embedded-/,
  yaml: /^gateway\/(?:route-files|settings)\//,
  ajv: /^gateway\/(?:route-files|settings)\//,
  commander: /^gateway\/cli\//,
  'prom-client': /^gateway\/(?:observe|workers)\//,
  '@opentelemetry/api': /^gateway\/observe\/tracing\.ts$/,
  '@opentelemetry/sdk-trace': /^gateway\/observe\/tracing\.ts$/,
  '@opentelemetry/resources': /^gateway\/observe\/tracing\.ts$/,
  '@opentelemetry/exporter-trace-otlp-proto': /^gateway\/observe\/tracing\.ts$/,
  // Imported by an ES module, it takes a good part of the start: see docs/internals.md.
  'node:http': /^gateway\/(?:observe\/ops-listener|cli\/doctor\/client)\.ts$/,
  pino: /^gateway\/observe\/logging\.ts$/,
  esbuild: /^gateway\/pages\/bundle-pages\.ts$/,
  fastify: /^gateway\/http\/own-endpoints\.ts$/,
  '@fastify/swagger': /^gateway\/http\/own-endpoints\.ts$/,
  '@fastify/ajv-compiler': /^gateway\/http\/own-endpoints\.ts$/,
  '@fastify/fast-json-stringify-compiler': /^gateway\/http\/own-endpoints\.ts$/
}

const files = ['gateway', 'migrations'].flatMap(folder =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts') && !file.includes('browser/'))
    .map(file => join(folder, file))
)

interface Import {
  readonly from: string
  readonly onlyTypes: boolean
}

const imports = (file: string): Import[] => {
  const source = readFileSync(join(ROOT, file), 'utf8')
  const found: Import[] = []
  for (const [, what = '', from = ''] of source.matchAll(/^(?:import|export)\s+([^;'"]*?)\s*from\s+'([^']+)'/gms)) {
    const names = /^\{(.*)\}$/s.exec(what.trim())?.[1]
    const onlyTypes =
      /^type\b/.test(what) ||
      (names?.split(',').every(name => name.trim() === '' || name.trim().startsWith('type ')) ?? false)
    found.push({ from, onlyTypes })
  }
  for (const [, from = ''] of source.matchAll(/\bimport\('([^']+)'\)/g)) found.push({ from, onlyTypes: false })
  return found
}

/** The files of ours that a file imports. */
const importedFiles = (file: string): string[] =>
  imports(file)
    .filter(({ from }) => from.startsWith('.'))
    .map(({ from }) => relative(ROOT, resolve(ROOT, dirname(file), from)))

/** A folder of `gateway/`, or a file at its root. */
const placeOf = (file: string): string => {
  const [top = '', second = ''] = file.split('/')
  return top === 'migrations' ? 'migrations' : second.replace(/\.ts$/, '')
}

const rowOf = (place: string): number => ROWS.findIndex(row => row.includes(place))

t.test('every file has a place', async t => {
  for (const file of files) t.not(rowOf(placeOf(file)), -1, file)
})

t.test('imports point down, from the process to the vocabulary', async t => {
  for (const file of files) {
    for (const target of importedFiles(file)) {
      const [a, b] = [placeOf(file), placeOf(target)]
      if (a !== b) t.ok(rowOf(a) < rowOf(b), `${file} (${a}) may import ${target} (${b})`)
    }
  }
})

t.test('no file leads back to itself by its imports', async t => {
  const done = new Set<string>()
  const visit = (file: string, way: readonly string[]): void => {
    if (way.includes(file)) t.fail(`a circle: ${[...way.slice(way.indexOf(file)), file].join(' → ')}`)
    if (done.has(file)) return
    done.add(file)
    for (const target of importedFiles(file)) if (target.endsWith('.ts')) visit(target, [...way, file])
  }
  for (const file of files) visit(file, [])
  t.ok(done.size >= files.length)
})

const exportsOf = (file: string): string[] =>
  [
    ...readFileSync(join(ROOT, file), 'utf8').matchAll(
      /^export (?:const|let|function\*?|async function|class|abstract class|interface|type) (\w+)/gm
    )
  ].map(([, name = '']) => name)

/** `file#name` for each name that a file imports from one of ours; `file#*` where it takes what it finds. */
const importedNames = (file: string): string[] => {
  const source = readFileSync(join(ROOT, file), 'utf8')
  const target = (from: string) => relative(ROOT, resolve(ROOT, dirname(file), from))
  const named = [...source.matchAll(/^(?:import|export)\s+(?:type\s+)?([^;'"]*?)\s*from\s+'(\.[^']+)'/gms)]
  return [
    ...named.flatMap(([, what = '', from = '']) =>
      what.startsWith('*')
        ? [`${target(from)}#*`]
        : (/\{(.*)\}/s.exec(what)?.[1] ?? '').split(',').map(
            name =>
              `${target(from)}#${
                name
                  .trim()
                  .replace(/^type\s+/, '')
                  .split(/\s/, 1)[0]
              }`
          )
    ),
    ...[...source.matchAll(/\bimport\('(\.[^']+)'\)/g)].map(([, from = '']) => `${target(from)}#*`)
  ]
}

t.test('no two files export the same name', async t => {
  const homes = new Map<string, string>()
  for (const file of files.filter(name => name.startsWith('gateway/'))) {
    for (const name of exportsOf(file)) {
      const other = homes.get(name)
      t.equal(other, undefined, `${name} in ${file}`)
      homes.set(name, file)
    }
  }
})

t.test('nothing is exported that no other file imports', async t => {
  const everywhere = ['gateway', 'migrations', 'test', 'tools', 'docker'].flatMap(folder =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter(file => file.endsWith('.ts'))
      .map(file => join(folder, file))
  )
  const used = new Set(everywhere.flatMap(importedNames))
  for (const file of files.filter(name => name.startsWith('gateway/'))) {
    if (used.has(`${file}#*`)) continue
    for (const name of exportsOf(file)) {
      const id = `${file}#${name}`
      t.ok(used.has(id), id)
    }
  }
})

t.test('each library has one home', async t => {
  for (const file of files) {
    for (const { from: library, onlyTypes } of imports(file)) {
      const home = HOMES[library] ?? HOMES[library.split('/', 1)[0] ?? '']
      if (home !== undefined && !onlyTypes) t.match(file, home, `${library} in ${file}`)
    }
  }
})

// RV-98
t.test('docs/architecture.md lists the libraries, and says of jose what the code does with it', async t => {
  const page = readFileSync(join(ROOT, 'docs', 'architecture.md'), 'utf8').replaceAll(/\s+/g, ' ')
  const listed = /## Libraries (.*?) For tests:/.exec(page)?.[1] ?? ''
  const aside = ['node:', '@fastify/', '@electric-sql/', '@opentelemetry/']
  for (const name of Object.keys(HOMES).filter(name => !aside.some(start => name.startsWith(start))))
    t.ok(listed.includes(name), name)
  t.match(page, /Tokens are signed and verified with `node:crypto`/)
  t.match(listed, /jose \(tokens of the cloud provider\)/)
  const users = files.filter(file => imports(file).some(({ from }) => from.split('/', 1)[0] === 'jose'))
  t.ok(users.length > 0 && users.every(file => file.startsWith('gateway/cloud/')))
})

t.test('a file has at most 400 lines', async t => {
  for (const file of files) t.ok(readFileSync(join(ROOT, file), 'utf8').split('\n').length <= 401, file)
})

t.test('nothing that grows is kept at module level but in a bounded map', async t => {
  for (const file of files)
    t.notMatch(
      readFileSync(join(ROOT, file), 'utf8'),
      /^(?:export )?const \w+(?:: [^=]+)? = new (?:Map|Set)(?:<.*>)?\(\)/m,
      file
    )
})

t.test('the environment is read in one place', async t => {
  for (const file of files) {
    if (/^gateway\/(?:settings\/|workers\/process|cli\/)/.test(file)) continue
    t.notMatch(readFileSync(join(ROOT, file), 'utf8'), /process\.env/, file)
  }
})

t.test('every file begins with a line that says what it does', async t => {
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
    // The tools of development use other release lines of undici, at nobody's request.
    const isChecked = !dev || name !== 'undici'
    if (floor !== undefined && isChecked) t.ok(atLeast(version, floor), `${path} ${version} is at least ${floor}`)
    t.notMatch(resolved ?? '', /^https?:/, `${path} names no download host`)
  }
})
