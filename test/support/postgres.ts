// A test has a Postgres of its own on a free port, which it may stop, kill, freeze and start again.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lchownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { freePort } from './ports.ts'
import { findPostgresBin } from './provision.ts'

export interface TestPostgres {
  /** An empty database in it, as superuser. */
  readonly url: string
  readonly port: number
  /** Another empty database. */
  newDatabase(): Promise<string>
  /** One statement in a database, by default the one of `url`. */
  query(statement: string, values?: unknown[], url?: string): Promise<Record<string, unknown>[]>
  /** Fast shutdown: open connections are told. */
  stop(): Promise<void>
  /** No goodbye, as when the machine dies. */
  kill(): Promise<void>
  /** Listening again, on the same port and data. */
  start(): Promise<void>
  /** Connections stay open and nothing answers, until `thaw`. */
  freeze(): void
  thaw(): void
}

export const startPostgres = async (t: Pick<Test, 'teardown'>): Promise<TestPostgres> => {
  const bin = findPostgresBin()
  if (bin === undefined) throw new Error('no PostgreSQL server found; set PORTARIA_TEST_POSTGRES_BIN')
  const owner = serverOwner()
  const home = mkdtempSync(join(tmpdir(), 'portaria-postgres-'))
  if (owner !== undefined) chownSync(home, owner.uid, owner.gid)
  cpSync(template(bin, owner), join(home, 'data'), { recursive: true, mode: 0 })
  chmodSync(join(home, 'data'), 0o700)
  if (owner !== undefined) chownAll(join(home, 'data'), owner)
  const server = createServerProcess(bin, home, await freePort(), owner)
  t.teardown(async () => {
    server.thaw()
    await server.kill()
    rmSync(home, { recursive: true, force: true })
  })
  await server.start()
  const newDatabase = () => createDatabase(server.port)
  const url = await newDatabase()
  return { ...server, url, newDatabase, query: (statement, values, at = url) => ask(at, statement, values) }
}

interface Owner {
  uid: number
  gid: number
}

/** Postgres refuses to run as root; then the system's own user for it runs it. */
const serverOwner = (): Owner | undefined => {
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
  if (owner !== undefined) chownSync(fresh, owner.uid, owner.gid)
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

const chownAll = (path: string, owner: Owner) => {
  lchownSync(path, owner.uid, owner.gid)
  for (const entry of readdirSync(path, { recursive: true, encoding: 'utf8' })) {
    lchownSync(join(path, entry), owner.uid, owner.gid)
  }
}

const SETTINGS = ['fsync=off', 'full_page_writes=off', 'shared_buffers=16MB']

const createServerProcess = (bin: string, home: string, port: number, owner: Owner | undefined) => {
  let server: ChildProcess | undefined
  const settings = [...SETTINGS, 'listen_addresses=127.0.0.1', `unix_socket_directories=${home}`, `port=${port}`]
  const run = ['-D', join(home, 'data'), ...settings.flatMap(setting => ['-c', setting])]
  const end = async (signal: NodeJS.Signals) => {
    const ending = server
    server = undefined
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return
    const exited = once(ending, 'exit')
    ending.kill(signal)
    await exited
  }
  const signalAll = (signal: NodeJS.Signals) => {
    const parent = server?.pid
    if (parent === undefined) return
    for (const pid of [parent, ...childrenOf(parent)]) tell(pid, signal)
  }
  return {
    port,
    async start() {
      const [command = '', ...before] = dyingWithUs(join(bin, 'postgres'), owner)
      const child = spawn(command, [...before, ...run], { stdio: ['ignore', 'ignore', 'pipe'], cwd: home })
      server = child
      await answering(child, port)
    },
    stop: () => end('SIGINT'),
    kill: () => end('SIGQUIT'),
    freeze: () => signalAll('SIGSTOP'),
    thaw: () => signalAll('SIGCONT')
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

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

const answering = async (child: ChildProcess, port: number) => {
  let said = ''
  child.stderr?.on('data', chunk => {
    said = (said + chunk).slice(-4_000)
  })
  const deadline = Date.now() + 30_000
  for (;;) {
    if (child.exitCode !== null) throw new Error(`Postgres did not start: ${said}`)
    try {
      await ask(urlOf(port, 'postgres'), 'SELECT 1')
      return
    } catch (error) {
      if (Date.now() > deadline) throw new Error(`Postgres did not start: ${said}`, { cause: error })
    }
    await new Promise(resolve => setTimeout(resolve, 25))
  }
}

const urlOf = (port: number, database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`

const createDatabase = async (port: number): Promise<string> => {
  const name = `portaria_${process.hrtime.bigint()}`
  await ask(urlOf(port, 'postgres'), `CREATE DATABASE ${name}`)
  return urlOf(port, name)
}

const ask = async (url: string, statement: string, values: unknown[] = []): Promise<Record<string, unknown>[]> => {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query(statement, values)).rows
  } finally {
    await client.end()
  }
}
