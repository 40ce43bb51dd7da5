// Runs a Postgres inside this process (PGlite) on a Unix socket in the data directory.
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmdirSync,
  rmSync,
  statSync
} from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setFlagsFromString } from 'node:v8'
import { PGlite } from '@electric-sql/pglite'
import type { Log } from '../values/log.ts'
import { DatabaseUnavailable } from './database-errors.ts'
import { startEmbeddedServer } from './embedded-server.ts'
import { ACCESS_CHANNEL } from './query.ts'

const PORT = 5432
const JOIN_TIMEOUT_MS = 20_000
/** sun_path holds 104 (macOS) to 108 bytes (Linux unix(7)). */
const MAX_SOCKET_PATH_BYTES = 100

/**
 * For Postgres, which is WebAssembly: optimizing it takes a third of the processor time and 400 MB of a first start. As an option of
 * Node.js the first would imply the others.
 */
const UNOPTIMIZED = ['--liftoff-only', '--no-wasm-tier-up', '--no-wasm-dynamic-tiering', '--wasm-lazy-compilation']

export type EmbeddedPostgres = Awaited<ReturnType<typeof openEmbeddedPostgres>>

export interface EmbeddedOptions {
  dataDir: string
  log: Log
  role: 'gateway' | 'command'
}

/** Starts the embedded Postgres in `dataDir`. A second gateway is refused; a command connects to the one that is running. */
export const openEmbeddedPostgres = async ({ dataDir, log, role }: EmbeddedOptions) => {
  const home = writableFolder(dataDir)
  const folder = socketFolder(home)
  const lock = lockDataDir(home) ?? (role === 'command' ? await joinOrLock(home, folder) : undefined)
  // Its lock file may have been removed while it runs.
  const isServed = lock !== undefined && (await answers(socketPath(folder)))
  if (isServed) lock.release()
  if (lock === undefined || isServed) {
    // The process that runs the database has the notifications.
    if (role === 'command') return { connection: connectionTo(folder), notifications: undefined, close: async () => {} }
    throw new Error(
      `another gateway already runs on the data directory ${home}; stop it, or set DATA_DIR or DATABASE_URL`
    )
  }
  try {
    return await start(home, folder, lock, { log, role })
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Throws with the name of the setting, the path and the reason: SQLite would only say that it cannot open a file. */
const writableFolder = (dataDir: string): string => {
  try {
    let existing = resolve(dataDir)
    while (!existsSync(existing)) existing = dirname(existing)
    // Below a folder that refuses every entry with ENOENT, as /proc does, a recursive mkdir never returns.
    rmdirSync(mkdtempSync(join(existing, '.writable-')))
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    return realpathSync(dataDir)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason'
    const reason =
      code === 'EROFS' ? 'its file system is read-only' : `user ${process.geteuid?.() ?? '?'} may not write there`
    const why = code === 'EROFS' || code === 'EACCES' || code === 'EPERM' ? `${code}: ${reason}` : code
    throw new Error(
      `DATA_DIR ${resolve(dataDir)} cannot be used (${why}); name a directory that this user may write, or set DATABASE_URL`,
      { cause: error }
    )
  }
}

const start = async (
  home: string,
  folder: string,
  lock: DataDirLock,
  { log, role }: Pick<EmbeddedOptions, 'log' | 'role'>
) => {
  const files = join(home, 'postgres')
  // PGlite lets every user write the files that it makes. The directory around it, if it was there before, may be shared.
  mkdirSync(files, { recursive: true })
  chmodSync(files, 0o700)
  const path = socketPath(folder)
  for (const flag of UNOPTIMIZED) setFlagsFromString(flag)
  const database = await PGlite.create({ dataDir: files }).catch(cannotOpen)
  await database.exec(`LISTEN ${ACCESS_CHANNEL}`)
  // PGlite is one session: a notification arrives with the answer to the client that sent the last message, so it is heard here.
  const notifications = {
    /** Calls back for each NOTIFY on ACCESS_CHANNEL; returns a function that stops it. */
    subscribe: (onPayload: (payload: string) => void): (() => void) =>
      database.onNotification((channel, payload) => {
        if (channel === ACCESS_CHANNEL) onPayload(payload)
      })
  }
  // This process holds the lock, so any socket here belongs to a process that was killed.
  rmSync(path, { force: true })
  const onPanic = (message: string) => {
    // A gateway drains and ends: its next start recovers what is stored. A command says by itself what its statement was answered.
    if (role === 'gateway')
      setImmediate(() => {
        throw new Error(`the embedded Postgres has ended: ${message}`)
      })
  }
  const server = await startEmbeddedServer(database, path, log, onPanic)
  const close = async () => {
    await server.close()
    if (!server.isOver()) await database.close()
    giveToOwner(home, files)
    rmSync(path, { force: true })
    if (folder !== home) rmSync(folder, { recursive: true, force: true })
    lock.release()
  }
  return { connection: connectionTo(folder), notifications, close }
}

/** What its file system throws, as on a full disk, is no Error and has no text. */
const cannotOpen = (cause: unknown): never => {
  throw new DatabaseUnavailable(
    cause instanceof Error ? cause : new Error('PGlite failed to write its files', { cause })
  )
}

/**
 * What a command of root has created: the gateway, which runs as the owner of the directory, could not read it. What else root has
 * there stays as it is.
 */
const giveToOwner = (home: string, files: string): void => {
  const owner = statSync(home, { throwIfNoEntry: false })
  // It may have been removed meanwhile.
  if (owner === undefined || owner.uid === 0 || process.geteuid?.() !== 0) return
  const give = (path: string): void => {
    const file = lstatSync(path, { throwIfNoEntry: false })
    if (file?.uid === 0) lchownSync(path, owner.uid, owner.gid)
    // A recursive readdir would follow links, to what is not the gateway's.
    if (file?.isDirectory()) for (const name of readdirSync(path)) give(join(path, name))
  }
  give(files)
}

/** Waits for the owner's socket; if the owner ends in the meantime, its lock is taken and returned. */
const joinOrLock = async (home: string, folder: string): Promise<DataDirLock | undefined> => {
  const deadline = performance.now() + JOIN_TIMEOUT_MS
  while (performance.now() < deadline) {
    if (await answers(socketPath(folder))) return undefined
    const lock = lockDataDir(home)
    if (lock !== undefined) return lock
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  throw new Error(`the gateway that owns the data directory ${home} does not respond on its socket`)
}

const answers = (path: string) =>
  new Promise<boolean>(resolve => {
    const socket = connect(path)
    socket.on('connect', () => resolve(true))
    socket.on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

const connectionTo = (host: string) => ({ host, port: PORT, user: 'postgres', database: 'postgres' })

const socketPath = (folder: string) => join(folder, `.s.PGSQL.${PORT}`)

/** The data directory itself, or a private temporary directory if its path is too long for a socket. */
const socketFolder = (home: string): string => {
  if (Buffer.byteLength(socketPath(home)) <= MAX_SOCKET_PATH_BYTES) return home
  const folder = join(tmpdir(), `portaria-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const stat = lstatSync(folder)
  const owner = process.getuid?.() ?? stat.uid
  if (!stat.isDirectory() || stat.uid !== owner || (stat.mode & 0o077) !== 0) {
    throw new Error(`${folder} must be a directory that only this user can access`)
  }
  return folder
}

/** Result codes. */
const SQLITE = { BUSY: 5, READONLY: 8, CANTOPEN: 14 } as const

type DataDirLock = NonNullable<ReturnType<typeof lockDataDir>>

/**
 * Takes the lock of a directory, or returns undefined while another process (or this one) holds it.
 * Node does not provide flock(2); an exclusively locked SQLite file is the file lock that it does provide.
 */
export const lockDataDir = (dataDir: string) => {
  const path = join(dataDir, 'portaria.lock')
  for (;;) {
    const before = inode(path)
    const file = new DatabaseSync(path, { open: false, timeout: 0 })
    try {
      file.open()
      // Of a file that it may only read, SQLite takes no lock, and says so only when it is to write.
      file.exec('PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE; PRAGMA user_version = 1')
    } catch (cause) {
      if (file.isOpen) file.close()
      const code = cause instanceof Error && 'errcode' in cause ? cause.errcode : undefined
      if (code === SQLITE.BUSY) return undefined
      if (code !== SQLITE.READONLY && code !== SQLITE.CANTOPEN) throw cause
      const why = `user ${process.geteuid?.() ?? '?'} may not write it`
      throw new Error(`the lock ${path} in DATA_DIR cannot be used (${why}); let that user own it`, { cause })
    }
    // The holder removes the file when it ends, so only a lock on the file that is there now counts.
    if (before === undefined || inode(path) !== before) file.close()
    else
      return {
        release() {
          if (!file.isOpen) return
          rmSync(path, { force: true })
          file.close()
        }
      }
  }
}

const inode = (path: string) => statSync(path, { throwIfNoEntry: false })?.ino
