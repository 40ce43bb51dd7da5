// Installs the servers that the tests need, or says exactly which are missing and which variables name them.
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const SBIN = ['/usr/sbin', '/usr/local/sbin', '/usr/lib/openldap', '/opt/homebrew/bin', '/usr/local/bin']

export const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const findProgram = (variable: string, names: readonly string[]): string | undefined => {
  const given = process.env[variable]
  if (given !== undefined && given !== '') return isProgram(given) ? given : undefined
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...SBIN].filter(Boolean)
  return names.flatMap(name => folders.map(folder => join(folder, name))).find(isProgram)
}

/** Folder of `postgres` and `initdb`: PORTARIA_TEST_POSTGRES_BIN, else the newest that is installed. */
export const findPostgresBin = (): string | undefined => {
  const given = process.env.PORTARIA_TEST_POSTGRES_BIN
  const complete = (folder: string) => isProgram(join(folder, 'postgres')) && isProgram(join(folder, 'initdb'))
  if (given !== undefined && given !== '') return complete(given) ? given : undefined
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  const folders = versions.map(version => join(debian, version, 'bin'))
  return [...folders, ...(process.env.PATH ?? '').split(delimiter), '/opt/homebrew/opt/postgresql/bin'].find(complete)
}

interface Server {
  readonly name: string
  /** Variable that names the program, or for PostgreSQL the folder of its programs. */
  readonly variable: string
  /** What the program may be called. */
  readonly programs: readonly string[]
  readonly packages: readonly string[]
  /** Where those cannot be had. */
  readonly otherwise?: readonly string[]
}

const server = (name: string, variable: string, programs: string, packages: string, otherwise?: string): Server => ({
  name,
  variable: `PORTARIA_TEST_${variable}`,
  programs: programs.split(' '),
  packages: [packages],
  ...(otherwise === undefined ? {} : { otherwise: [otherwise] })
})

// A Chromium without windows and their widgets takes half of the work for each page.
const CHROMIUMS = 'chromium-headless-shell chromium chromium-browser google-chrome-stable google-chrome'
const PGBOUNCER = server('PgBouncer', 'PGBOUNCER', 'pgbouncer', 'pgbouncer')
const CHROMIUM = server('Chromium', 'CHROMIUM', CHROMIUMS, 'chromium-headless-shell', 'chromium')
const NGINX = server('nginx', 'NGINX', 'nginx', 'nginx-light')
const SERVERS: readonly Server[] = [
  server('PostgreSQL', 'POSTGRES_BIN', '', 'postgresql'),
  PGBOUNCER,
  server('Redis', 'REDIS_SERVER', 'redis-server valkey-server', 'redis-server'),
  server('OpenLDAP (slapd)', 'SLAPD', 'slapd', 'slapd'),
  server('ldapadd', 'LDAPADD', 'ldapadd', 'ldap-utils'),
  CHROMIUM,
  NGINX,
  server('OpenSSL', 'OPENSSL', 'openssl', 'openssl')
]

const find = ({ name, variable, programs }: Server): string | undefined =>
  name === 'PostgreSQL' ? findPostgresBin() : findProgram(variable, programs)

export const findPgBouncer = () => find(PGBOUNCER)
export const findNginx = () => find(NGINX)
export const findChromium = () => find(CHROMIUM)

const missing = () => SERVERS.filter(each => find(each) === undefined)

/** Installs what is missing on Debian as root. Throws an Error that names each thing still missing and its variable. */
export const provision = (say: (line: string) => void): void => {
  const wanted = missing()
  if (wanted.length === 0) return
  // A variable that points nowhere is a mistake to be told of, not a reason to install.
  const installable = wanted.filter(({ variable }) => (process.env[variable] ?? '') === '')
  if (process.getuid?.() === 0 && isProgram('/usr/bin/apt-get')) {
    for (const choice of ['packages', 'otherwise'] as const) {
      const packages = installable.filter(each => find(each) === undefined).flatMap(each => each[choice] ?? [])
      if (packages.length > 0) install(packages, say)
    }
  }
  const still = missing()
  if (still.length === 0) return
  const lines = still.map(each => `  ${each.name}: install it (Debian: ${each.packages}) or set ${each.variable}`)
  throw new Error(`These servers are needed by the tests and were not found:\n${lines.join('\n')}`)
}

/** By apt-get, as root; what can't be had is said. */
export const install = (packages: readonly string[], say: (line: string) => void) => {
  say(`Installing what is needed: ${packages.join(' ')}`)
  const policy = keepServicesStill()
  try {
    if (apt(['install', '-y', '--no-install-recommends', ...packages]).status === 0) return
    // The lists may be absent, or too old to fetch from. One by one, a package that cannot be had stops no other.
    apt(['update'])
    for (const name of packages) {
      const { status, output } = apt(['install', '-y', '--no-install-recommends', name])
      if (status !== 0) say(output.trim().split('\n').slice(-5).join('\n'))
    }
  } finally {
    policy.remove()
  }
}

const apt = (command: string[]) => {
  const { status, stdout, stderr, error } = spawnSync('apt-get', ['-qq', '-o', 'DPkg::Lock::Timeout=300', ...command], {
    encoding: 'utf8',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    timeout: 900_000,
    maxBuffer: 64 * 1024 * 1024
  })
  return { status, output: `${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}` }
}

const POLICY = '/usr/sbin/policy-rc.d'

/** Debian starts a service as it installs it, unless policy-rc.d says 101 (invoke-rc.d(8)): the tests start their own. */
const keepServicesStill = () => {
  const ours = !existsSync(POLICY)
  if (ours) writeFileSync(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  return {
    remove() {
      if (ours) rmSync(POLICY, { force: true })
    }
  }
}
