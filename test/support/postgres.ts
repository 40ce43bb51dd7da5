// Gives a test databases on the run's one Postgres, or a Postgres of its own, which it may stop, kill, freeze and start again.
import { execFileSync } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { findPostgresBin } from './provision.ts'
import { childrenOf, createServerProcess, makeFolder } from './server-process.ts'
import { succeeds, until } from './until.ts'

/** What a database of the run's Postgres and a server of a test's own have in common. */
export type TestPostgres = Pick<OwnPostgres, 'url' | 'port' | 'newDatabase' | 'emptyDatabase' | 'query'>
export type OwnPostgres = Awaited<ReturnType<typeof startOwnPostgres>>

/** Databases on the Postgres that `test/run.ts` started, which go with the test; without one, as {@link startOwnPostgres}. */
export const startPostgres = async (t: Pick<Test, 'teardown'>): Promise<TestPostgres> => {
  const server = process.env[SHARED_POSTGRES]
  if (server === undefined) return startOwnPostgres(t)
  const port = Number(new URL(server).port)
  const made: string[] = []
  const create = async (template: string) => {
    const url = await createDatabase(port, template)
    made.push(url)
    return url
  }
  t.teardown(async () => {
    for (const url of made)
      await askPostgres(urlOf(port, 'postgres'), `DROP DATABASE ${new URL(url).pathname.slice(1)} (FORCE)`)
  })
  const newDatabase = () => create(TEMPLATE_DATABASE)
  const url = await newDatabase()
  return {
    url,
    port,
    newDatabase,
    emptyDatabase: () => create('template1'),
    query: (statement, values, at = url) => askPostgres(at, statement, values)
  }
}

/** Names the run's Postgres to its test files. */
export const SHARED_POSTGRES = 'PORTARIA_TEST_POSTGRES'
/** In the run's Postgres: the schema, and no rows. */
export const TEMPLATE_DATABASE = 'portaria_schema'

interface OwnOptions {
  /** Folder with another version of Postgres than the installed one. */
  readonly bin?: string
  /** Size of a volume of its own for the tables; pg_wal lies beside it. Needs root. */
  readonly volumeMb?: number
}

/** @param settings of the server beyond those that every test wants, `name=value` */
export const startOwnPostgres = async (
  t: Pick<Test, 'teardown'>,
  settings: readonly string[] = [],
  { bin = findPostgresBin(), volumeMb }: OwnOptions = {}
) => {
  if (bin === undefined) throw new Error('no PostgreSQL server found; set PORTARIA_TEST_POSTGRES_BIN')
  const owner = serverOwner()
  const home = makeFolder(t, 'postgres')
  give(home, owner)
  execFileSync('cp', ['-a', template(bin, owner), join(home, 'data')])
  const server = createPostgres({ bin, home, port: await freePort(), owner, settings, volumeMb })
  t.teardown(async () => {
    server.thaw()
    await server.kill()
  })
  await server.start()
  const newDatabase = () => createDatabase(server.port)
  const url = await newDatabase()
  return {
    ...server,
    /** A database of this test's own, as superuser. */
    url,
    /** Another one; on the run's Postgres they have the schema already, as at any start but the first. */
    newDatabase,
    emptyDatabase: newDatabase,
    /** One statement in a database, by default the one of `url`. */
    query: (statement: string, values?: unknown[], at = url) => askPostgres(at, statement, values),
    /**
     * A server that follows this one until it is promoted; it is read-only until then.
     * @param name as in `synchronous_standby_names`
     */
    async addStandby(name = 'standby') {
      await server.stop()
      const standby = await copyToStandby(t, { bin, home, owner, settings, volumeMb: undefined }, server.port, name)
      await server.start()
      await standby.start()
      await until(async () => (await askPostgres(url, STREAMING, [name])).length > 0)
      /** It receives nothing from now on. */
      const cutOff = async () => {
        standby.follow(1)
        await standby.query('SELECT pg_reload_conf()')
        await until(async () => (await askPostgres(url, STREAMING, [name])).length === 0)
      }
      return { ...standby, cutOff, promote: async () => void (await standby.query('SELECT pg_promote()')) }
    }
  }
}

/** How many sessions wait for a lock that another one holds. */
export const countLockWaits = async (postgres: Pick<TestPostgres, 'query'>, url?: string): Promise<number> =>
  (await postgres.query(LOCK_WAITS, [], url)).length

const LOCK_WAITS = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
const STREAMING = "SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming'"

/** Of a server that is stopped. */
const copyToStandby = async (
  t: Pick<Test, 'teardown'>,
  { home: from, ...options }: Omit<ServerOptions, 'port'>,
  primaryPort: number,
  name: string
) => {
  const home = makeFolder(t, 'standby')
  const data = join(home, 'data')
  execFileSync('cp', ['-a', join(from, 'data'), data])
  const { owner } = options
  const follow = (port: number) => {
    const line = `primary_conninfo = 'host=127.0.0.1 port=${port} user=postgres application_name=${name}'\n`
    for (const [file, text] of Object.entries({ 'postgresql.auto.conf': line, 'standby.signal': '' })) {
      writeFileSync(join(data, file), text)
      give(join(data, file), owner)
    }
  }
  follow(primaryPort)
  give(home, owner)
  const standby = createPostgres({ ...options, home, port: await freePort() })
  t.teardown(standby.kill)
  const query = (statement: string, database = 'postgres') => askPostgres(urlOf(standby.port, database), statement)
  return { ...standby, follow, query }
}

interface Owner {
  uid: number
  gid: number
}

/** Postgres refuses to run as root; then the system's own user for it runs it. */
export const serverOwner = (): Owner | undefined => {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync('/etc/passwd', 'utf8').split('\n')
  const line = users.find(user => user.startsWith('postgres:')) ?? users.find(user => user.startsWith('nobody:'))
  const [, , uid, gid] = line?.split(':') ?? []
  return { uid: Number(uid), gid: Number(gid) }
}

/** `initdb` once per machine and version; a test copies what it made. */
const template = (bin: string, owner: Owner | undefined): string => {
  const version = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' }).replace(/[^0-9.]+/g, '-')
  const made = join(tmpdir(), `portaria-postgres-template${version}-${owner?.uid ?? process.getuid?.() ?? 0}`)
  if (existsSync(made)) return made
  const fresh = mkdtempSync(join(tmpdir(), 'portaria-initdb-'))
  give(fresh, owner)
  const options = ['-D', fresh, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync']
  execFileSync(join(bin, 'initdb'), options, { stdio: 'pipe', cwd: fresh, ...owner })
  try {
    renameSync(fresh, made)
  } catch {
    // Another test was faster.
    rmSync(fresh, { recursive: true, force: true })
  }
  return made
}

const give = (path: string, owner: Owner | undefined) => {
  if (owner !== undefined) chownSync(path, owner.uid, owner.gid)
}

const SETTINGS = ['fsync=off', 'full_page_writes=off', 'shared_buffers=16MB']

interface ServerOptions {
  readonly bin: string
  readonly home: string
  readonly port: number
  readonly owner: Owner | undefined
  readonly settings: readonly string[]
  readonly volumeMb: number | undefined
}

/** Moves the tables to a volume that no other process sees, so that it goes with the server. */
const onVolume = (home: string, sizeMb: number): string[] => {
  const [data, copy] = [join(home, 'data'), join(home, 'whole')]
  const steps = [
    `mv ${data} ${copy}`,
    `mkdir ${data}`,
    `mount -t tmpfs -o size=${sizeMb}m,mode=700 tmpfs ${data}`,
    `cp -a ${copy}/. ${data}`,
    `rm -r ${data}/pg_wal`,
    `ln -s ${copy}/pg_wal ${data}/pg_wal`,
    `chown --reference=${copy} ${data}`,
    'exec "$@"'
  ]
  return ['unshare', '--mount', 'sh', '-c', steps.join(' && '), 'sh']
}

const createPostgres = ({ bin, home, port, owner, settings: more, volumeMb }: ServerOptions) => {
  const own = ['listen_addresses=127.0.0.1', `unix_socket_directories=${home}`, `port=${port}`]
  const settings = [...SETTINGS, ...more, ...own].flatMap(setting => ['-c', setting])
  const run = ['-D', join(home, 'data'), ...settings]
  const volume = volumeMb === undefined ? [] : onVolume(home, volumeMb)
  const [command = '', ...before] = [...volume, ...dyingWithUs(join(bin, 'postgres'), owner)]
  const isUp = () => succeeds(askPostgres(urlOf(port, 'postgres'), 'SELECT 1'))
  const server = createServerProcess({ command, args: [...before, ...run], cwd: home, isUp })
  // While it is stopped itself: the list may lack children as long as others end (proc(5)).
  const signalChildren = (parent: number, signal: NodeJS.Signals) => {
    for (const pid of childrenOf(parent)) tell(pid, signal)
  }
  return {
    port,
    /** Listening again, on the same port and data. */
    start: server.start,
    /** Fast shutdown: open connections are told. */
    stop: () => server.end('SIGINT'),
    /** No goodbye, as when the machine dies. */
    kill: () => server.end('SIGQUIT'),
    /** Connections stay open and nothing answers, until `thaw`. */
    freeze() {
      const parent = server.pid()
      if (parent === undefined) return
      tell(parent, 'SIGSTOP')
      signalChildren(parent, 'SIGSTOP')
    },
    thaw() {
      const parent = server.pid()
      if (parent === undefined) return
      signalChildren(parent, 'SIGCONT')
      tell(parent, 'SIGCONT')
    }
  }
}

/** A test that is killed leaves no server behind (prctl(2), PR_SET_PDEATHSIG), where the system can do that. */
const dyingWithUs = (program: string, owner: Owner | undefined): string[] => {
  if (process.platform !== 'linux') return [program]
  const user = owner === undefined ? [] : [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups']
  return ['setpriv', ...user, '--pdeathsig', 'SIGQUIT', program]
}

const tell = (pid: number, signal: NodeJS.Signals) => {
  try {
    process.kill(pid, signal)
  } catch {
    // A backend that ended meanwhile needs no signal.
  }
}

const urlOf = (port: number, database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`

const createDatabase = async (port: number, from = 'template1'): Promise<string> => {
  const name = `portaria_${process.pid}_${process.hrtime.bigint()}`
  const at = urlOf(port, 'postgres')
  const copy = `CREATE DATABASE ${name} TEMPLATE ${from}`
  // Half the work of writing each page to the log; Postgres 14 and before know no other way, nor the word for it.
  await askPostgres(at, `${copy} STRATEGY FILE_COPY`).catch(() => askPostgres(at, copy))
  return urlOf(port, name)
}

/** One statement on a connection of its own; resolves to the rows. */
export const askPostgres = async (
  url: string,
  statement: string,
  values: unknown[] = []
): Promise<Record<string, unknown>[]> => {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 30_000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query(statement, values)).rows
  } finally {
    await client.end()
  }
}
