// How the process is started: through npm a signal still drains it, and an old Node says what is needed. RW-29
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { baseEnv, routeFile } from '../support/gateway-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

t.test('SIGTERM to `npm start` drains the gateway and ends it', async t => {
  const postgres = await startPostgres(t)
  const { folder } = routeFile(t, { routes: [] })
  const npm = spawn('npm', ['start', '--silent'], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...baseEnv(folder), PORT: '0', DATABASE_URL: postgres.url },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true
  })
  t.teardown(() => {
    try {
      process.kill(-(npm.pid ?? 0), 'SIGKILL')
    } catch {
      // It has ended, as it should.
    }
  })
  let printed = ''
  npm.stdout.on('data', chunk => {
    printed += chunk
  })
  await until(() => printed.includes('"listening"'))
  const gatewayPid = Number(/"pid":(\d+)/.exec(printed)?.[1])
  const ended = once(npm, 'exit')
  npm.kill('SIGTERM')
  await ended
  await until(() => !existsSync(`/proc/${gatewayPid}`), 'the gateway has ended')
  t.match(printed, /"msg":"stopping"/)
  t.match(printed, /"msg":"stopped"/)
})

t.test('an old Node prints which one is needed, without having to read TypeScript', async t => {
  const launcher = readFileSync(join(root, 'gateway/main.ts'), 'utf8')
  const pretend = (version: string) =>
    spawnSync(
      process.execPath,
      [
        '--input-type=commonjs',
        '--no-experimental-strip-types',
        '--eval',
        `Object.defineProperty(process, 'versions', { value: { node: '${version}' } })\n${launcher}`
      ],
      { encoding: 'utf8' }
    )
  for (const version of ['18.20.0', '20.20.2', '23.11.1']) {
    const { status, stderr } = pretend(version)
    t.equal(status, 1, version)
    t.match(stderr, /^Portaria needs Node 24 or later/)
  }
  const old = ['/usr/bin/node', '/usr/local/bin/node'].find(
    path => existsSync(path) && /^v(?:1\d|2[0-2])\./.test(spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout)
  )
  if (old === undefined) return
  const { status, stderr } = spawnSync(old, ['gateway/main.ts'], { cwd: root, encoding: 'utf8' })
  t.equal(status, 1)
  t.match(stderr, /^Portaria needs Node 24 or later and this is v\d+/)
})
