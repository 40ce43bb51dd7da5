// Tools that support only user names and passwords, with an access token as the password: npm, docker and skopeo.
import { equal, match, rejects } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { backend } from './backend.ts'
import { npm as installWithNpm } from './installed.ts'
import { logIn } from './person.ts'
import { type Lab, NO_BROWSER, type System, versionOf } from './system.ts'

const VERDACCIO_VERSION = '6.10.4'
const VERDACCIO = `
listen: 127.0.0.1:PORT
storage: ./storage
url_prefix: /npm/
auth: { htpasswd: { file: ./htpasswd } }
packages: { '**': { access: $all, publish: $all } }
log: { type: stdout, format: json, level: fatal }
`

/** npm with a registry and a password in a settings file of its own, under the name given. */
const npmWith = (lab: Lab, name: string, registry: string, password: string) => {
  const auth = Buffer.from(`me:${password}`).toString('base64')
  lab.write({ [`${name}.npmrc`]: `registry=${registry}\n${registry.replace('http:', '')}:_auth=${auth}\n` })
  const own = ['--userconfig', `${name}.npmrc`, '--cache', `cache-${name}`, '--registry', registry]
  const use = (...words: string[]) => lab.run('npm', [...words, ...own, '--loglevel', 'error'])
  return {
    use,
    install: (what: string) => use('install', '--no-audit', '--prefix', name, what),
    installed: (what: string) => {
      const file = join(lab.folder, name, 'node_modules', what, 'package.json')
      return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
    }
  }
}

const npm = backend({
  name: 'npm with Verdaccio',
  recipe: 'registries',
  version: () => `npm ${versionOf('npm', '--version')}, Verdaccio ${VERDACCIO_VERSION}`,
  async start(lab) {
    // Not every mirror knows the tag by which Verdaccio names this dependency.
    const folder = await installWithNpm({ verdaccio: VERDACCIO_VERSION }, { 'node-fetch': '2.7.0' })
    const program = join(folder, 'node_modules/.bin/verdaccio')
    return lab.start(program, ['--config', './verdaccio.yaml'], { files: { 'verdaccio.yaml': VERDACCIO } })
  },
  async check({ lab, world, port }) {
    const describe = (version: string) =>
      lab.write({ 'thing/package.json': JSON.stringify({ name: '@corp/thing', version }) })
    const own = 'a password of Verdaccio'
    const joined = await fetch(`http://127.0.0.1:${port}/-/user/org.couchdb.user:me`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'me', password: own })
    })
    equal(joined.status, 201)
    describe('1.0.0')
    const direct = npmWith(lab, 'direct', `http://127.0.0.1:${port}/`, own)
    await direct.use('publish', './thing')
    // Its tarballs carry the public prefix, so that only the metadata can be asked for directly.
    match(await direct.use('view', '@corp/thing', 'version'), /^1\.0\.0$/m)
    const { token } = await logIn(lab, world)
    const through = npmWith(lab, 'through', `${world.url}/npm/`, token)
    describe('1.1.0')
    await through.use('publish', './thing')
    await through.install('@corp/thing@1.1.0')
    equal(through.installed('@corp/thing'), '1.1.0')
    const refused = npmWith(lab, 'refused', `${world.url}/npm/`, 'guessed')
    await rejects(refused.install('@corp/thing@1.1.0'), /E401/)
    return ['publish and install of a scoped package (basic)', 'a wrong password refused', NO_BROWSER]
  }
})

const REGISTRY = `
version: 0.1
log: { level: error, accesslog: { disabled: true } }
storage: { filesystem: { rootdirectory: ./images } }
http: { addr: '127.0.0.1:PORT' }
`

/** Writes an image of one empty layer as the folder `image`, in skopeo's form `dir:`. */
const writeImage = (lab: Lab): void => {
  const digestOf = (content: string) => createHash('sha256').update(content).digest('hex')
  const add = (content: string, mediaType: string) => {
    lab.write({ [`image/${digestOf(content)}`]: content })
    return { mediaType, size: content.length, digest: `sha256:${digestOf(content)}` }
  }
  // Two blocks of zeros: an empty archive (POSIX pax).
  const layer = '\0'.repeat(1024)
  const rootfs = { type: 'layers', diff_ids: [`sha256:${digestOf(layer)}`] }
  const config = JSON.stringify({ architecture: 'amd64', os: 'linux', config: {}, rootfs })
  const manifest = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: add(config, 'application/vnd.oci.image.config.v1+json'),
    layers: [add(layer, 'application/vnd.oci.image.layer.v1.tar')]
  }
  lab.write({ 'image/version': 'Directory Transport Version: 1.1\n', 'image/manifest.json': JSON.stringify(manifest) })
}

const containers = backend({
  name: 'docker login, skopeo with a container registry',
  recipe: 'registries',
  programs: { 'docker-registry': 'docker-registry', docker: 'docker.io', skopeo: 'skopeo' },
  address: '127.0.0.1:5000',
  version() {
    const [docker, skopeo] = [versionOf('docker', '--version'), versionOf('skopeo', '--version')]
    return `docker ${docker}, skopeo ${skopeo}, ${versionOf('docker-registry', '--version')}`
  },
  start: lab => lab.start('docker-registry', ['serve', 'registry.yml'], { files: { 'registry.yml': REGISTRY } }),
  async check({ lab, world, port }) {
    writeImage(lab)
    const run = (program: string, words: readonly string[], input = '') =>
      lab.run(program, words, { input, env: { HOME: lab.folder, DOCKER_CONFIG: join(lab.folder, 'docker') } })
    const plain = ['--insecure-policy', 'copy', '--dest-tls-verify=false', '--src-tls-verify=false']
    const copy = (from: string, to: string) => run('skopeo', [...plain, from, to])
    await copy('dir:image', `docker://127.0.0.1:${port}/team/direct:1`)
    const { token } = await logIn(lab, world)
    const through = `127.0.0.1:${world.port}`
    const login = ['login', '--username', 'me', '--password-stdin']
    match(await run('docker', [...login, through], token), /Login Succeeded/)
    await rejects(run('docker', [...login, through], 'guessed'), /401 Unauthorized|unauthorized/)
    match(await run('skopeo', [...login, '--tls-verify=false', through], token), /Login Succeeded/)
    await copy('dir:image', `docker://${through}/team/thing:1`)
    await copy(`docker://${through}/team/thing:1`, 'dir:got')
    return [
      'push directly',
      '`docker login` (without an engine), `skopeo login`, push and fetch (basic)',
      'a wrong password refused',
      NO_BROWSER
    ]
  }
})

export const BY_PASSWORD: readonly System[] = [npm, containers]
