// What every group of rows shares: a temporary folder, a secret, an upstream on the load core, stores, and their end.
import { execFileSync } from 'node:child_process'
import { chmod, chown, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/support/ports.ts'
import type { Options } from './options.ts'
import { LOAD_CORE, runPinned, startListening, startPinned, waitUntil } from './processes.ts'
import { createSecret, sign } from './tokens.ts'
import { startUpstream, type Upstream } from './upstream.ts'

export interface World {
  readonly options: Options
  readonly secret: string
  /** A good token of an Admin. */
  readonly token: string
  readonly upstream: Upstream
  /** A fresh folder below the run's own. */
  folder(name: string): Promise<string>
  /** Started at first use, then shared. */
  redisUrl(): Promise<string>
  databaseUrl(): Promise<string>
  /** Runs when the world closes, last registered first. */
  defer(action: () => Promise<unknown>): void
  say(line: string): void
}

export const withWorld = async <T>(options: Options, use: (world: World) => Promise<T>): Promise<T> => {
  const root = await mkdtemp(join(tmpdir(), 'portaria-bench-'))
  await chmod(root, 0o755)
  const deferred: Array<() => Promise<unknown>> = [() => rm(root, { recursive: true, force: true })]
  const close = async () => {
    for (const action of deferred.splice(0).reverse()) await action().catch(error => console.error(String(error)))
  }
  const leave = (signal: NodeJS.Signals) => void close().finally(() => process.exit(signal === 'SIGINT' ? 130 : 143))
  process.once('SIGINT', leave)
  process.once('SIGTERM', leave)

  try {
    return await use(await createWorld(options, root, action => deferred.push(action)))
  } finally {
    await close()
    process.off('SIGINT', leave)
    process.off('SIGTERM', leave)
  }
}

const createWorld = async (options: Options, root: string, defer: World['defer']): Promise<World> => {
  let count = 0
  const folder = async (name: string) => {
    count += 1
    const path = join(root, `${count}-${name}`)
    await mkdir(path)
    return path
  }
  let redis: Promise<string> | undefined
  let database: Promise<string> | undefined
  const secret = createSecret()
  return {
    options,
    secret,
    token: sign(secret),
    upstream: await startUpstream(await folder('upstream'), defer),
    folder,
    redisUrl: () => {
      redis ??= startRedis(folder, defer)
      return redis
    },
    databaseUrl: () => {
      database ??= startPostgres(folder, defer)
      return database
    },
    defer,
    say: line => console.log(line)
  }
}

const startRedis = async (folder: World['folder'], defer: World['defer']): Promise<string> => {
  const dir = await folder('redis')
  const { port } = await startListening({ defer }, port => {
    const flags = { port, bind: '127.0.0.1', save: '', appendonly: 'no', dir }
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, `${value}`])
    return { name: 'Redis', core: LOAD_CORE, command: 'redis-server', args }
  })
  return `redis://127.0.0.1:${port}`
}

/** Where the server programs lie: on PATH, or where Debian keeps them. */
const postgresBin = async (): Promise<string> => {
  const versions = await readdir('/usr/lib/postgresql').catch(() => [])
  const newest = versions.map(Number).sort((a, b) => b - a)[0]
  return newest === undefined ? '' : `/usr/lib/postgresql/${newest}/bin/`
}

/** PostgreSQL refuses to run as root: then it runs as the account of its package. */
const postgresAccount = (): { uid: number; gid: number } | Record<string, never> => {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

const startPostgres = async (folder: World['folder'], defer: World['defer']): Promise<string> => {
  const data = await folder('postgres')
  const bin = await postgresBin()
  const account = postgresAccount()
  if (account.uid !== undefined && account.gid !== undefined) await chown(data, account.uid, account.gid)

  const start = { name: 'PostgreSQL', core: LOAD_CORE, ...account }
  const cluster = join(data, 'cluster')
  await runPinned({
    ...start,
    command: `${bin}initdb`,
    args: ['-D', cluster, '-U', 'portaria', '-A', 'trust', '-N', '-E', 'UTF8']
  })
  const port = await freePort()
  const running = startPinned({
    ...start,
    command: `${bin}postgres`,
    args: ['-D', cluster, '-p', `${port}`, '-h', '127.0.0.1', '-k', data, '-c', 'fsync=off', '-c', 'max_connections=50']
  })
  defer(async () => {
    running.signal('SIGINT')
    await running.stop()
  })
  const probe = ['-h', '127.0.0.1', '-p', `${port}`, '-U', 'portaria', '-d', 'postgres', '-c', 'select 1']
  await waitUntil(running, () =>
    runPinned({ ...start, command: `${bin}psql`, args: probe }).then(
      () => true,
      () => false
    )
  )
  return `postgres://portaria@127.0.0.1:${port}/postgres`
}
