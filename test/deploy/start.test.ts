// How the process is started: through npm a signal still drains it.
// RW-29
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
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
