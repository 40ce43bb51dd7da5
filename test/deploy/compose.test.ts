// The compose stack is held to what it promises: known settings, pinned images, no secrets, routes that lead to services, and a
// sample directory and a sample backend that do what the stack expects of them.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { Client } from 'ldapts'
import { io } from 'socket.io-client'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { weakerNeighbours } from '../../gateway/cli/weaker-neighbours.ts'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { VARIABLES } from '../../gateway/settings/table.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { findSchema } from '../support/openldap-config.ts'
import { freePort } from '../support/ports.ts'
import { createServerProcess, makeFolder } from '../support/server-process.ts'
import { succeeds } from '../support/until.ts'

interface ComposeService {
  readonly image?: string
  readonly build?: string
  readonly extends?: { readonly service: string }
  readonly environment?: Readonly<Record<string, string>>
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly tmpfs?: readonly string[]
  readonly logging?: { readonly driver: string }
  readonly networks?: readonly string[]
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly env_file?: readonly { readonly path: string; readonly required: boolean }[]
}

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>
  readonly volumes: Readonly<Record<string, unknown>>
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>
}

const readCompose = (file: string | URL): Compose => parse(readFileSync(file, 'utf8')) as Compose

/** Compose's own interpolation: `${NAME:-default}`, innermost first, then `$$`. */
const interpolate = (text: string, env: Readonly<Record<string, string>> = {}): string => {
  const inner = text.replace(
    /(?<!\$)\$\{(\w+):-([^${}]*)\}/g,
    (_, name: string, fallback: string) => env[name] || fallback
  )
  return inner === text ? text.replaceAll('$$', '$') : interpolate(inner, env)
}

/** What a service gets when nothing is set by the user. */
const environmentOf = (service: ComposeService | undefined): Record<string, string> =>
  Object.fromEntries(Object.entries(service?.environment ?? {}).map(([name, value]) => [name, interpolate(value)]))

/** The text of a `sh -euc TEXT` command, as the shell sees it. */
const shellScript = (command: readonly string[] | undefined): string => {
  const [shell, flags, text] = command ?? []
  if (shell !== 'sh' || flags !== '-euc' || text === undefined) throw new Error('not a shell script')
  return interpolate(text)
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const compose = readCompose(join(root, 'docker-compose.yml'))
const { gateway, secrets } = compose.services
const dockerfiles = ['Dockerfile', 'docker/openldap/Dockerfile', 'docker/upstream/Dockerfile']
const manifest = JSON.parse(read('package.json')) as { devDependencies: Record<string, string> }

t.test('the secrets service makes secrets once, and the gateway accepts them with the compose settings', async t => {
  const folder = t.testdir({ secrets: {}, ca: {} })
  const inFolder = (text: string) => text.replaceAll('/secrets', join(folder, 'secrets'))
  const owner = `${process.getuid?.()}:${process.getgid?.()}`
  const make = () =>
    execFileSync('sh', ['-euc', inFolder(shellScript(secrets?.entrypoint)).replace('1000:1000', owner)])
  make()
  const jwtSecret = readFileSync(join(folder, 'secrets/jwt-secret'), 'utf8')
  t.match(jwtSecret, /^[\w-]{64}$/)
  make()
  t.equal(readFileSync(join(folder, 'secrets/jwt-secret'), 'utf8'), jwtSecret, 'a second start keeps it')
  t.equal(statSync(join(folder, 'secrets/jwt-secret')).mode & 0o777, 0o600)

  t.same(gateway?.command, ['portaria', 'start'])
  t.ok(gateway?.volumes?.includes('./docker/portaria:/usr/local/bin/portaria:ro'))
  t.equal(statSync(join(root, 'docker/portaria')).mode & 0o555, 0o555, 'the user of the image may run it')
  // In the place of Node.js, prints what it gets.
  const script = `run() { echo "ARGS=$*"; env; }\n${inFolder(read('docker/portaria')).replace(/^exec node /m, 'run ')}`
  const exportedWith = (env: NodeJS.ProcessEnv) => {
    const printed = execFileSync('sh', ['-c', script, 'portaria', 'unlock', 'ana'], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, ...env }
    })
    return Object.fromEntries(printed.split('\n').map(line => [line.split('=')[0], line.slice(line.indexOf('=') + 1)]))
  }
  const exported = exportedWith({})
  t.equal(exported.JWT_SECRET, jwtSecret)
  t.match(exported.ARGS, /^--.* \/portaria\/dist\/portaria\.cjs unlock ana$/, 'any command gets them')
  const byFile = exportedWith({ JWT_SECRET_FILE: '/run/secrets/jwt', DATABASE_URL_FILE: '/d', REDIS_URL_FILE: '/r' })
  t.notOk(
    byFile.JWT_SECRET ?? byFile.DATABASE_URL ?? byFile.REDIS_URL,
    'a file that .env names replaces that of the volume'
  )

  const { JWT_SECRET = '', DATABASE_URL = '', REDIS_URL = '' } = exported
  const env = {
    ...environmentOf(gateway),
    JWT_SECRET,
    DATABASE_URL,
    REDIS_URL,
    LDAP_CA_FILE: createCertificateAuthority(join(folder, 'ca')).caFile
  }
  const settings = readSettings(env)
  t.equal(settings.port, 3000)
  t.equal(settings.publicUrl, 'http://localhost:3000')
  t.equal(settings.ldap.active, true)
  t.equal(settings.ldap.insecure, false)
  t.match(settings.databaseUrl, /^postgres:\/\/portaria:[\w-]{64}@postgres:5432\/portaria$/)
  t.match(settings.redis, { host: 'redis', password: /^[\w-]{64}$/ })
  t.match(settings.bootstrapAdmins, [{ provider: 'ldap', subject: 'ana' }])
})

// CF-13
t.test('every setting in the compose file is one that the gateway reads, and none is a secret', async t => {
  const settings = VARIABLES.flatMap(({ name }) => [name, `${name}_FILE`])
  for (const name of Object.keys(gateway?.environment ?? {})) {
    if (name.endsWith('_URL')) t.notMatch(gateway?.environment?.[name], /@/, `${name} holds no password`)
    t.ok(settings.includes(name), `${name} is a setting`)
    t.notMatch(name, /SECRET|PASSWORD|DATABASE_URL/)
  }
  t.same(gateway?.env_file, [{ path: '.env', required: false }], 'further settings come from .env')
})

t.test('Postgres and Redis have passwords, and a network that only the gateway shares', async t => {
  t.same(compose.networks, { data: { internal: true } })
  const inside = Object.entries(compose.services).filter(([, { networks }]) => networks?.includes('data'))
  t.same(inside.map(([name]) => name).sort(), ['gateway', 'postgres', 'redis'])
  for (const name of ['postgres', 'redis'])
    t.same(compose.services[name]?.networks, ['data'], `${name} is nowhere else`)
  t.match(compose.services.postgres?.environment, { POSTGRES_PASSWORD_FILE: '/secrets/postgres-password' })
  t.match(shellScript(compose.services.redis?.command), '--requirepass "$(cat /secrets/redis-password)"')
})

t.test('images are pinned, and the Node in the image is the Node that the tests ran on', async t => {
  for (const [name, service] of Object.entries(compose.services)) {
    if (service.image !== undefined) t.match(service.image, /^[\w/-]+:\d+\.\d[\w.-]*$/, `${name} names a version`)
    else t.ok(service.build ?? service.extends, `${name} is built here`)
  }
  for (const file of dockerfiles) {
    const images = [...read(file).matchAll(/^FROM (\S+)/gm)].map(([, image]) => image ?? '')
    t.ok(images.length > 0)
    for (const image of images) {
      t.match(image, /^\w+:\d+\.\d[\w.-]*$/)
      if (image.startsWith('node:'))
        t.ok(image.startsWith(`node:${manifest.devDependencies.node}-`), `${file}: ${image}`)
    }
  }
})

// RV-119, RV-122
t.test('the health check asks the ops listener, with what Docker 20.10 and podman 4.3 understand', async t => {
  const dockerfile = read('Dockerfile')
  t.match(dockerfile, /^ENV .*\bOPS_PORT=9090$/m)
  t.match(
    dockerfile,
    /^HEALTHCHECK .*\n {2}CMD wget -Y off -q -O \/dev\/null "http:\/\/127\.0\.0\.1:\$OPS_PORT\/ready"$/m
  )
  t.notMatch(dockerfile, /--(?:start-interval|chmod|mount)/, 'these need BuildKit, or a later engine')
})

// RV-125, RV-129
t.test('the image gets only what runs, readable by its user', async t => {
  const [, image = ''] = read('Dockerfile').split(/^FROM .*(?<!AS build)$/m)
  t.same(
    [...image.matchAll(/^COPY (.*)$/gm)].map(([, what]) => what),
    ['--from=build /image ./']
  )
  t.match(read('Dockerfile'), 'cp -r package.json dist upstream-config /image && chmod -R a+rX /image')
})

// RV-125
t.test('the user of the image gets the code that root has compiled for it', async t => {
  const own = "require('module').enableCompileCache('cache'); console.log(require('module').getCompileCacheDir())"
  const folder = execFileSync(process.execPath, ['-e', own], { cwd: t.testdir(), encoding: 'utf8' }).trim()
  t.match(folder, new RegExp(`-${process.getuid?.()}$`), 'Node.js reads what was compiled by the same user only')

  const image = t.testdir({ 'node_modules/.cache/portaria': { 'v24.21.0-x64-964aae3f-0': { '3505ecaa': '' } } })
  const [rename = 'false'] = /for one in .*?; done/.exec(read('Dockerfile')) ?? []
  execFileSync('sh', ['-ec', rename], { cwd: image })
  const [, user] = /^USER (\d+):/m.exec(read('Dockerfile')) ?? []
  t.same(readdirSync(join(image, 'node_modules/.cache/portaria')), [`v24.21.0-x64-964aae3f-${user}`])
})

// RV-123, RV-128
t.test('no anonymous volume is left behind, logs are rotated, and comments agree with the variables', async t => {
  for (const [name, service] of Object.entries(compose.services)) {
    if (service.extends === undefined) t.same(service.logging, { driver: 'local' }, name)
    if (service.image?.startsWith('redis:')) t.ok(service.tmpfs?.includes('/data'), name)
  }
  t.match(read('docker-compose.yml'), 'Settings come from a file .env beside this one; those that are written as')
})

t.test('the build of the image has every file that it bundles', async t => {
  const copied = [...read('Dockerfile').matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, sources]) =>
    (sources ?? '').split(' ')
  )
  const allowed = read('.dockerignore')
    .split('\n')
    .filter(line => line.startsWith('!'))
    .map(line => line.slice(1))
  t.same([...new Set(copied)].sort(), allowed.sort(), 'the build context is exactly what is copied')

  const entryPoints = ['gateway/cli/portaria.ts', 'gateway/workers/worker.ts', 'tools/build/build.ts']
  const options = { bundle: true, write: false, metafile: true, packages: 'external', platform: 'node' } as const
  const { metafile } = await build({ ...options, absWorkingDir: root, entryPoints, outdir: 'dist', format: 'esm' })
  const files = Object.keys(metafile.inputs)
  t.ok(files.length > 100)
  for (const file of files)
    t.ok(
      copied.some(folder => file.startsWith(`${folder}/`)),
      file
    )
})

t.test('only the gateway is published, to this machine alone; nothing starts before what it needs', async t => {
  for (const [name, service] of Object.entries(compose.services)) {
    if (name === 'gateway') t.strictSame(service.ports?.length, 1)
    else t.equal(service.ports, undefined, `${name} is not published`)
    for (const [needed, { condition }] of Object.entries(service.depends_on ?? {})) {
      const other = compose.services[needed]
      t.ok(other, `${name} needs ${needed}`)
      const base = other?.extends === undefined ? other : compose.services[other.extends.service]
      const dockerfile = base?.build === undefined ? '' : read(join(base.build, 'Dockerfile'))
      t.match(condition, /^service_(?:healthy|completed_successfully)$/, `${name} waits for ${needed}`)
      if (condition === 'service_healthy')
        t.ok(base?.healthcheck ?? dockerfile.includes('HEALTHCHECK'), `${needed} has a check`)
    }
    for (const volume of service.volumes ?? []) {
      const source = volume.split(':')[0] ?? ''
      t.ok(source.startsWith('./') || source in compose.volumes, `${name}: ${source} is declared`)
    }
  }
  t.match(gateway?.ports?.[0], /^127\.0\.0\.1:/)
})

t.test('the sample routes load, pass their own tests, and lead to services of the stack', async t => {
  const { table, warnings } = await loadRoutes(join(root, 'upstream-config'), [])
  t.same([...warnings, ...weakerNeighbours(table)], [], '`portaria check` has nothing to say about them')
  for (const upstream of table.upstreams.values()) {
    for (const target of upstream.targets) {
      t.equal(String(target.port), compose.services[target.host]?.environment?.PORT, target.url)
    }
  }
  t.ok(table.routes.some(route => route.socketio?.namespaces.some(namespace => namespace.name === '/messaging')))
})

/** Until the test ends. */
const start = async (
  t: Test,
  command: string,
  args: string[],
  own: Record<string, string>,
  isUp: () => Promise<boolean>
) => {
  const env = { PATH: `${process.env.PATH}:/usr/sbin`, ...own }
  const server = createServerProcess({ command, args, env, isUp })
  t.teardown(() => server.end('SIGTERM'))
  await server.start()
}

t.test('the sample directory lets its people in over TLS, by their passwords only', async t => {
  // In a short path of its own, readable by the account that slapd changes to.
  const folder = makeFolder(t, 'directory')
  chmodSync(folder, 0o755)
  const port = await freePort()
  const caFile = join(folder, 'ca.pem')
  const env = { DATA: folder, CA: folder, PORT: `${port}`, LISTEN: '127.0.0.1', SCHEMA: findSchema() }

  const bind = async (uid: string, password: string): Promise<string> => {
    const tlsOptions = { ca: readFileSync(caFile) }
    const client = new Client({ url: `ldaps://localhost:${port}`, timeout: 5000, tlsOptions })
    try {
      await client.bind(`uid=${uid},ou=people,dc=corp,dc=example`, password)
      const { searchEntries } = await client.search('ou=people,dc=corp,dc=example', {
        filter: `(uid=${uid})`,
        attributes: ['displayName', 'userPassword']
      })
      return JSON.stringify(searchEntries.map(({ dn: _, ...entry }) => entry))
    } finally {
      await client.unbind()
    }
  }
  const answers = async () => existsSync(caFile) && (await succeeds(bind('ana', 'ana-sample')))
  await start(t, 'sh', [join(root, 'docker/openldap/entrypoint.sh')], env, answers)

  t.match(await bind('ana', 'ana-sample'), '"displayName":"Ana Souza"')
  t.match(await bind('carla', 'carla-sample'), '"displayName":"Carla Conceição"')
  t.match(await bind('bruno', 'bruno-sample'), '"userPassword":[]', 'nobody reads passwords')
  t.match(await bind('davi', 'davi-sample'), 'Davi Rocha')
  await t.rejects(bind('ana', 'bruno-sample'), { code: 49 })
})

t.test('the sample backend shows who asks, streams events, and serves /messaging', async t => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const isHealthy = () => succeeds(fetch(`${url}/healthz`))
  await start(
    t,
    process.execPath,
    [join(root, 'docker/upstream/server.ts')],
    { PORT: `${port}`, NAME: 'orders' },
    isHealthy
  )

  const answer = await fetch(`${url}/api/orders/7`, { method: 'DELETE', headers: { 'x-user-id': '7' } })
  t.match(await answer.json(), {
    from: 'orders',
    method: 'DELETE',
    path: '/api/orders/7',
    identity: { 'x-user-id': '7' }
  })
  t.match(await (await fetch(url)).text(), '<h1>orders</h1>')

  const stream = new AbortController()
  const events = await fetch(`${url}/api/orders/events`, { signal: stream.signal })
  t.equal(events.headers.get('content-type'), 'text/event-stream')
  const first = await events.body?.getReader().read()
  t.match(new TextDecoder().decode(first?.value), /^id: 1\ndata: /)
  stream.abort()

  const socket = io(`${url}/messaging`, { transports: ['websocket'], auth: { user: { id: 7 } }, reconnection: false })
  t.teardown(() => socket.disconnect())
  const heard = (event: string) => new Promise(resolve => socket.once(event, resolve))
  const [qr, status] = await Promise.all([heard('qr'), heard('status')])
  t.match(qr, { code: /^portaria-/ })
  t.match(status, { state: 'connected', user: { id: 7 } })
  const echoed = heard('message')
  socket.emit('message', { text: 'olá' })
  t.same(await echoed, { text: 'olá' })
})
