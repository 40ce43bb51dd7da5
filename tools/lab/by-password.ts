// Tools that support only user names and passwords, with an access token as the password: git and npm.
import { equal, match } from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { World } from '../../test/support/gateway.ts'
import { freePort } from '../../test/support/ports.ts'
import { startGit } from './behind-apache.ts'
import { logIn } from './person.ts'
import { firstLine, type Lab, NO_BROWSER, type System } from './system.ts'

/** Runs a program beside the gateway of this process. */
const start = async (lab: Lab, program: string, words: readonly string[]): Promise<string> =>
  (await promisify(execFile)(program, words, { cwd: lab.folder, timeout: 240_000 })).stdout

const fails = async (running: Promise<string>): Promise<string> =>
  running.then(
    () => '',
    (error: { stderr?: string }) => error.stderr ?? 'failed'
  )

const withPassword = (world: World, password: string) => world.url.replace('//', `//me:${password}@`)

const gitByPassword: System = {
  name: 'git over HTTP, access token as password',
  recipe: 'git-http',
  version: () => firstLine('git', '--version').replace('git version ', ''),
  async check(lab) {
    const port = await startGit(lab)
    const git = (...words: string[]) => start(lab, 'git', ['-c', 'core.askPass=true', ...words])
    const commit = async (folder: string) => {
      writeFileSync(join(lab.folder, folder, `${folder}.txt`), folder)
      await git('-C', folder, 'add', '.')
      await git('-C', folder, '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', folder)
      await git('-C', folder, 'push', '-q', 'origin', 'HEAD:main')
    }
    await git('clone', '-q', `http://127.0.0.1:${port}/git/one.git`, 'direct')
    await commit('direct')
    const world = await lab.gateway('git-http', { '127.0.0.1:8080': `127.0.0.1:${port}` })
    const { token } = await logIn(lab, world)
    await git('clone', '-q', '-b', 'main', `${withPassword(world, token)}/git/one.git`, 'through')
    await commit('through')
    await git('clone', '-q', '-b', 'main', `http://127.0.0.1:${port}/git/one.git`, 'after')
    equal(readFileSync(join(lab.folder, 'after/through.txt'), 'utf8'), 'through')
    const refused = await fails(git('clone', '-q', `${withPassword(world, 'guessed')}/git/one.git`, 'refused'))
    match(refused, /Authentication failed/)
    return ['clone and push (basic)', 'a wrong password refused', NO_BROWSER]
  }
}

const VERDACCIO = (port: number) => `
listen: 127.0.0.1:${port}
storage: ./storage
url_prefix: /npm/
auth: { htpasswd: { file: ./htpasswd } }
packages: { '**': { access: $all, publish: $all } }
log: { type: stdout, format: json, level: fatal }
`

const startVerdaccio = async (lab: Lab): Promise<number> => {
  // Not every mirror knows the tag by which Verdaccio names this dependency.
  writeFileSync(join(lab.folder, 'package.json'), '{"private":true,"overrides":{"node-fetch":"2.7.0"}}')
  await start(lab, 'npm', ['install', '--no-audit', '--no-fund', 'verdaccio@6.10.4'])
  const port = await freePort()
  writeFileSync(join(lab.folder, 'verdaccio.yaml'), VERDACCIO(port))
  await lab.run(join(lab.folder, 'node_modules/.bin/verdaccio'), ['--config', './verdaccio.yaml'], port)
  return port
}

/** npm with a registry and a password in a settings file of its own, under the name given. */
const npmWith = (lab: Lab, name: string, registry: string, password: string) => {
  const config = join(lab.folder, `${name}.npmrc`)
  const auth = Buffer.from(`me:${password}`).toString('base64')
  writeFileSync(config, `registry=${registry}\n${registry.replace('http:', '')}:_auth=${auth}\n`)
  const own = ['--userconfig', config, '--cache', join(lab.folder, `cache-${name}`), '--registry', registry]
  const use = (...words: string[]) => start(lab, 'npm', [...words, ...own, '--loglevel', 'error'])
  const folder = join(lab.folder, name)
  return {
    use,
    install: (what: string) => use('install', '--no-audit', '--prefix', folder, what),
    installed: (what: string) => {
      const file = join(folder, 'node_modules', what, 'package.json')
      return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
    }
  }
}

const npm: System = {
  name: 'npm with Verdaccio',
  recipe: 'registries',
  version: () => `npm ${firstLine('npm', '--version')}, Verdaccio 6.10.4`,
  async check(lab) {
    const port = await startVerdaccio(lab)
    mkdirSync(join(lab.folder, 'thing'))
    const describe = (version: string) =>
      writeFileSync(join(lab.folder, 'thing/package.json'), JSON.stringify({ name: '@corp/thing', version }))
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
    equal((await direct.use('view', '@corp/thing', 'version')).trim(), '1.0.0')
    const world = await lab.gateway('registries', { '127.0.0.1:4873': `127.0.0.1:${port}` })
    const { token } = await logIn(lab, world)
    const through = npmWith(lab, 'through', `${world.url}/npm/`, token)
    describe('1.1.0')
    await through.use('publish', './thing')
    await through.install('@corp/thing@1.1.0')
    equal(through.installed('@corp/thing'), '1.1.0')
    const refused = npmWith(lab, 'refused', `${world.url}/npm/`, 'guessed')
    match(await fails(refused.install('@corp/thing@1.1.0')), /E401/)
    return ['publish and install of a scoped package (basic)', 'a wrong password refused', NO_BROWSER]
  }
}

export const BY_PASSWORD: readonly System[] = [gitByPassword, npm]
