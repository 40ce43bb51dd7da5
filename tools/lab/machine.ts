// Boots a bare Debian with Node.js and npm, and the package that this checkout makes; what it writes is gone at the end.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { startOpenLdap } from '../../test/support/openldap.ts'
import { freePort } from '../../test/support/ports.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { startRedis } from '../../test/support/redis.ts'
import { childrenOf, createServerProcess, makeFolder } from '../../test/support/server-process.ts'
import { succeeds } from '../../test/support/until.ts'
import type { Teardown } from '../teardown.ts'
import { debian, ensurePrograms, NODE_PROGRAM, npmFolder } from './installed.ts'
import { outputOf } from './program.ts'

const ROOT = join(import.meta.dirname, '../..')
const SYSTEM = 'systemd,systemd-sysv,dbus,procps,openssl,curl'

export type Machine = Awaited<ReturnType<typeof bootMachine>>
export type Equipped = Awaited<ReturnType<typeof equipMachine>>

type Settings = Readonly<Record<string, string>>

/** Shell that adds settings to a file. */
export const addSettings = (file: string, settings: Settings): string => {
  const lines = Object.entries(settings).map(([name, value]) => `${name}='${value}'\n`)
  return `cat >> ${file} <<'END'\n${lines.join('')}END\n`
}

/** A machine, and what a gateway on it needs: a port, stores and a directory with `ana`. */
export const equipMachine = async (t: Teardown) => {
  const [postgres, redis, ldap] = await Promise.all([startPostgres(t), startRedis(t), startOpenLdap(t)])
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  return {
    machine: await bootMachine(t),
    port,
    url,
    stores: { DATABASE_URL: postgres.url, REDIS_URL: redis.url } as Settings,
    directory: ldap.env,
    /** Logs ana in, and prints the response. */
    logIn: `curl -sf ${url}/auth/login --json '{"username":"ana","password":"${ldap.password}"}'`
  }
}

/** Needs root. The machine shares the network of this one, so it reaches databases here. */
const bootMachine = async (t: Teardown) => {
  ensurePrograms({ 'systemd-nspawn': 'systemd-container', debootstrap: 'debootstrap' })
  const system = await debian(SYSTEM)
  const folder = makeFolder(t, 'machine')
  await outputOf('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: ROOT })
  const [archive = ''] = readdirSync(folder)
  const files = [
    `--bind-ro=${NODE_PROGRAM}:/usr/bin/node`,
    `--bind-ro=${npmFolder()}:/usr/lib/node_modules/npm`,
    `--bind-ro=${join(folder, archive)}:/root/${archive}`
  ]
  const ways = ['--quiet', '--boot', '--register=no', '--keep-unit', '--volatile=overlay', '--console=pipe']
  /** The output of a script of a shell in `/root`, where the package is; rejects with what it wrote if it fails. */
  const run = (script: string, env: Settings = {}) => {
    const namespaces = ['--mount', '--uts', '--ipc', '--pid', '--cgroup', '--root']
    const clean = ['env', '-i', 'PATH=/usr/bin:/usr/sbin', 'HOME=/root', 'npm_config_offline=true']
    const set = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    // Process 1 of the machine is the only child of the program that runs it.
    const [target = ''] = childrenOf(engine.pid() ?? 0)
    const shell = ['sh', '-euc', `cd\n${script}`]
    return outputOf('nsenter', [`--target=${target}`, ...namespaces, ...clean, ...set, ...shell])
  }
  const engine = createServerProcess({
    command: 'systemd-nspawn',
    args: [...ways, `--directory=${system}`, '--machine=portaria', ...files],
    // It fails in any other state.
    isUp: () => succeeds(run('systemctl is-system-running'))
  })
  t.teardown(() => engine.end('SIGTERM'))
  await engine.start()
  // An installed Debian has this line.
  await run('echo 127.0.0.1 localhost > /etc/hosts')
  await run('for name in npm npx; do ln -s ../lib/node_modules/npm/bin/$name-cli.js /usr/bin/$name; done')
  const [systemd = ''] = (await run('systemctl --version')).split('\n')
  /** `version`: those of its systemd and its Node.js. */
  return { version: `${systemd.split(' (')[0]}, Node ${(await run('node --version')).trim().slice(1)}`, run }
}
