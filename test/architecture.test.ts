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
  ajv: /^gateway\/(?:admin|route-files)\//,
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

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')

const filesIn = (...folders: readonly string[]): string[] =>
  folders.flatMap(folder =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter(file => file.endsWith('.ts'))
      .map(file => join(folder, file))
  )

const files = filesIn('gateway', 'migrations').filter(file => !file.includes('browser/'))

interface Import {
  /** A library, or a file of ours. */
  readonly from: string
  /** `*`: whatever is there. */
  readonly names: readonly string[]
  readonly onlyTypes: boolean
}

const imports = (file: string): Import[] => {
  const source = read(file)
  const pathOf = (from: string) => (from.startsWith('.') ? relative(ROOT, resolve(ROOT, dirname(file), from)) : from)
  const statements = source.matchAll(/^(?:import|export)\s+([^;'"]*?)\s*from\s+'([^']+)'/gms)
  const written = [...statements].map(([, what = '', from = '']) => {
    const list = /\{(.*)\}/s.exec(what)?.[1]?.split(',') ?? ['*']
    const names = list.map(name => name.trim()).filter(name => name !== '')
    const onlyTypes = /^type\b/.test(what) || (what.startsWith('{') && names.every(name => name.startsWith('type ')))
    return { from: pathOf(from), names: names.map(name => name.replace(/^type /, '').replace(/ .*/, '')), onlyTypes }
  })
  const awaited = [...source.matchAll(/\bimport\('([^']+)'\)/g)]
  return [...written, ...awaited.map(([, from = '']) => ({ from: pathOf(from), names: ['*'], onlyTypes: false }))]
}

const importsOf = new Map(files.map(file => [file, imports(file)]))

/** The files of ours that a file imports. */
const importedFiles = (file: string): string[] =>
  importsOf.get(file)?.flatMap(({ from }) => (from.endsWith('.ts') ? [from] : [])) ?? []

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

const exportsOf = (file: string): string[] => {
  const named = /^export (?:const|let|function\*?|async function|class|abstract class|interface|type) (\w+)/gm
  return [...read(file).matchAll(named)].map(([, name = '']) => name)
}

t.test('no two files export the same name, and nothing is exported that no other file imports', async t => {
  const used = new Set(
    filesIn('gateway', 'migrations', 'test', 'tools', 'docker').flatMap(file =>
      imports(file).flatMap(({ from, names }) => names.map(name => `${from}#${name}`))
    )
  )
  const homes = new Map<string, string>()
  for (const file of files.filter(name => name.startsWith('gateway/'))) {
    for (const name of exportsOf(file)) {
      t.equal(homes.get(name), undefined, `${name} in ${file}`)
      homes.set(name, file)
      t.ok(used.has(`${file}#*`) || used.has(`${file}#${name}`), `${file}#${name}`)
    }
  }
})

t.test('each library has one home', async t => {
  for (const file of files) {
    for (const { from: library, onlyTypes } of importsOf.get(file) ?? []) {
      const home = HOMES[library] ?? HOMES[library.split('/', 1)[0] ?? '']
      if (home !== undefined && !onlyTypes) t.match(file, home, `${library} in ${file}`)
    }
  }
})

// RV-98
t.test('docs/architecture.md lists the libraries, and says of jose what the code does with it', async t => {
  const page = read('docs/architecture.md').replaceAll(/\s+/g, ' ')
  const listed = /## Libraries (.*?) For tests:/.exec(page)?.[1] ?? ''
  const aside = ['node:', '@fastify/', '@electric-sql/', '@opentelemetry/']
  for (const name of Object.keys(HOMES).filter(name => !aside.some(start => name.startsWith(start))))
    t.ok(listed.includes(name), name)
  t.match(page, /Tokens are signed and verified with `node:crypto`/)
  t.match(listed, /jose \(tokens of the cloud provider\)/)
  const users = files.filter(file => importsOf.get(file)?.some(({ from }) => from.split('/', 1)[0] === 'jose'))
  t.ok(users.length > 0 && users.every(file => file.startsWith('gateway/cloud/')))
})

t.test(
  'files are short, begin with what they do, keep nothing that grows, and leave the environment alone',
  async t => {
    for (const file of files) {
      const source = read(file)
      const lines = source.split('\n')
      t.ok(lines.length <= 401, `${file} has at most 400 lines`)
      t.match(lines[0], /^\/\/ .+[.:]$/, file)
      // At module level, only a bounded map may grow.
      t.notMatch(source, /^(?:export )?const \w+(?:: [^=]+)? = new (?:Map|Set)(?:<.*>)?\(\)/m, file)
      if (!/^gateway\/(?:settings\/|workers\/process|cli\/)/.test(file)) t.notMatch(source, /process\.env/, file)
    }
  }
)

t.test('dependencies stay above the floors below which attacks are known', async t => {
  // SM-30, AD-23
  const lock = JSON.parse(read('package-lock.json')) as {
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
  const atLeast = (version: string, floor: string) => version.localeCompare(floor, 'en', { numeric: true }) >= 0
  for (const [path, { version = '0.0.0', resolved, dev = false }] of Object.entries(lock.packages)) {
    const name = path.slice(path.lastIndexOf('node_modules/') + 13)
    const floor = floors[name]
    // The tools of development use other release lines of undici, at nobody's request.
    const isChecked = !dev || name !== 'undici'
    if (floor !== undefined && isChecked) t.ok(atLeast(version, floor), `${path} ${version} is at least ${floor}`)
    t.notMatch(resolved ?? '', /^https?:/, `${path} names no download host`)
  }
})
