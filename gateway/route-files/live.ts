// Keeps the route table in step with the files: each change is read completely, and swapped in only if all of it is valid. Large files are read in a process.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { RouteTable, WrittenRoute } from '../routes/route.ts'
import { coalesce } from '../values/coalesce.ts'
import { noteOutOfDescriptors } from '../values/descriptors.ts'
import type { Log } from '../values/log.ts'
import { moduleUrl } from '../values/package-files.ts'
import { aboutFile, type Complaint, RouteFileError } from './complaint.ts'
import { type LoadOptions, loadDefinitions } from './load.ts'
import { listRouteFiles, type RouteDefinitions, readRouteFiles } from './read.ts'
import { fingerprint, watchFolder } from './watch.ts'

export type TableStatus = ReturnType<LiveRoutes['status']>

export interface LiveRoutesOptions extends Omit<LoadOptions, 'upstreamsInUse'> {
  readonly folder: string
  readonly ownRoutes: readonly WrittenRoute[]
  readonly log: Log
  /** Called after each reload, whatever its result. */
  readonly onReload?: (ok: boolean) => void
  /** Called when the files have changed, while they are loaded here: has others load them too. */
  readonly onChange?: (() => Promise<unknown>) | undefined
  /** What another process has in use; undefined: none has. Used if the files have mistakes at the start. */
  readonly inUseElsewhere?: (() => Promise<RouteDefinitions | undefined>) | undefined
  readonly quietMs?: number
  readonly pollMs?: number
}

/** Of files that change all the time, what was read last is used. */
const MAX_READS = 5

export type LiveRoutes = Awaited<ReturnType<typeof createLiveRoutes>>

/**
 * Loads the routes and keeps them current.
 * @throws {RouteFileError} if the first load fails and no other process has a table in use
 */
export const createLiveRoutes = async (options: LiveRoutesOptions) => {
  const { folder, ownRoutes, log, onReload, quietMs = 2000, pollMs = 500 } = options
  const closing = new AbortController()
  const closed = closing.signal
  /** A replaced certificate takes effect although no route file has changed. */
  let certificateFiles: readonly string[] = []
  /** Taken before the files are read, so that a save in between is seen as a change. */
  let seen = ''
  const read = () =>
    readInBackground(folder, closed).catch(error => {
      if (closed.aborted) throw error
      log.warn({ err: error }, 'the process that reads route files has failed; they are read again while requests wait')
      return readRouteFiles(folder)
    })
  /** Rules of which some are from before a change and some from after it may open what neither opens. */
  const readUnmixed = async () => {
    for (let reads = 1; ; reads++) {
      const before = await fingerprint(folder)
      const definitions = await read()
      if (reads < MAX_READS && (await fingerprint(folder)) !== before) continue
      certificateFiles = definitions.certificateFiles
      seen = [before, ...definitions.certificateStamps].join('\n')
      return definitions
    }
  }
  const define = async (definitions: RouteDefinitions, upstreamsInUse: RouteTable['upstreams'] = new Map()) => {
    const loaded = await loadDefinitions(definitions, ownRoutes, { ...options, upstreamsInUse })
    return { ...loaded, definitions }
  }
  const load = async (upstreamsInUse?: RouteTable['upstreams']) => define(await readUnmixed(), upstreamsInUse)
  let lastError: readonly Complaint[] | undefined
  const refuse = (error: unknown): undefined => {
    if (closed.aborted) return
    // The files have changed, but none could be opened.
    if (noteOutOfDescriptors(error)) return void watcher.again()
    const isMistake = error instanceof RouteFileError
    if (!isMistake) log.error({ err: error }, 'the route files could not be reloaded')
    const complaints = isMistake ? error.complaints : [aboutFile(folder, 'the files could not be loaded')]
    // Several reloads may find the same mistakes; the message is not repeated.
    const isKnown = JSON.stringify(complaints) === JSON.stringify(lastError)
    lastError = complaints
    if (!isKnown) log.error({ complaints }, 'route files not reloaded; the previous table stays in use')
  }
  const first = await load().catch(async error => {
    const elsewhere = error instanceof RouteFileError ? await options.inUseElsewhere?.() : undefined
    if (elsewhere === undefined) throw error
    refuse(error)
    onReload?.(false)
    return define(elsewhere)
  })
  if (first.warnings.length > 0) log.warn({ warnings: first.warnings }, 'route files loaded with warnings')
  let { table, definitions } = first
  let loadedAt = new Date()
  const followers: ((table: RouteTable) => void)[] = []

  const accept = ({ table: next, warnings, definitions: read }: typeof first, isAsked: boolean): void => {
    const wasBroken = lastError !== undefined
    const { checksum } = next
    lastError = undefined
    if (checksum === table.checksum && haveSameUpstreams(next, table)) {
      if (wasBroken) log.info({ checksum }, 'the route files on disk are the ones in use again')
      else if (isAsked) log.info({ checksum }, 'route files unchanged; the route table stays in use')
      return
    }
    table = next
    definitions = read
    loadedAt = new Date()
    if (warnings.length > 0) log.warn({ checksum, warnings }, 'route files reloaded with warnings')
    else log.info({ checksum, routes: next.routes.length }, 'route files reloaded')
    for (const follower of followers) follower(next)
  }
  const reload = coalesce(async (isAsked): Promise<boolean> => {
    if (closed.aborted) return false
    const loaded = await load(table.upstreams).catch(refuse)
    if (closed.aborted) return false
    if (loaded !== undefined) accept(loaded, isAsked)
    onReload?.(loaded !== undefined)
    return loaded !== undefined
  })
  const watcher = watchFolder({
    folder,
    alsoWatched: () => certificateFiles,
    quietMs,
    pollMs,
    seen: () => seen,
    onChange: () =>
      void Promise.all([reload(), options.onChange?.()]).catch(error => log.error({ err: error }, 'a reload failed')),
    onUnrest: () =>
      log.warn({ folder }, 'route files keep changing and are not reloaded; SIGHUP reloads them as they are')
  })
  return {
    /** The table in use. Requests keep the route they matched, so a swap never changes one midway. */
    current: (): RouteTable => table,
    /** What the table in use was made of. */
    definitions: (): RouteDefinitions => definitions,
    /** Passes a follower the current table, and each later one. */
    follow(follower: (table: RouteTable) => void) {
      follower(table)
      followers.push(follower)
    },
    /**
     * Reads the files now; reloads never overlap. True if a table was swapped in or nothing had changed.
     * @param isAsked someone requested it, so the log also says when nothing has changed
     */
    reload,
    status: () => ({
      /** When the table in use was loaded. */
      loadedAt,
      checksum: table.checksum,
      /** Whether the files on disk are the ones in use. */
      ok: lastError === undefined,
      /** What is wrong with the files on disk. */
      ...(lastError === undefined ? {} : { lastError })
    }),
    /** Stops watching and waits for a reload in progress, whose result is dropped. */
    async close() {
      closing.abort()
      watcher.close()
      await reload.idle()
    }
  }
}

// A changed CA file leaves the route files unchanged, but not the upstreams.
const haveSameUpstreams = (a: RouteTable, b: RouteTable): boolean =>
  [...a.upstreams].every(([name, upstream]) => b.upstreams.get(name) === upstream)

/** Parsing this much takes a few milliseconds. More is read in a process, which ends with the memory that it took. */
const INLINE_BYTES = 32 * 1024

/** See `readRouteFiles`; without delaying requests. Rejects only if the process cannot run, or if `signal` ends it. */
const readInBackground = async (folder: string, signal: AbortSignal): Promise<RouteDefinitions> => {
  if ((await sizeOf(folder)) <= INLINE_BYTES) return readRouteFiles(folder)
  signal.throwIfAborted()
  // No thread: the fault of Node.js that ends one now and then as it starts ends this process too (nodejs/node#60755).
  const reader = fork(moduleUrl('gateway/route-files/reader-process.ts'), [folder], {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    killSignal: 'SIGKILL',
    signal
  })
  // `once` passes on the first error; one that is ended late has another.
  reader.on('error', () => undefined)
  let definitions: RouteDefinitions | undefined
  reader.once('message', message => {
    definitions = message as RouteDefinitions
  })
  // After the last message, however the process ends.
  await once(reader, 'disconnect')
  if (definitions === undefined) throw new Error('the process that reads route files ended')
  return definitions
}

const sizeOf = async (folder: string): Promise<number> => {
  const names = await listRouteFiles(folder).catch(() => [])
  const sizes = await Promise.all(names.map(name => stat(join(folder, name)).catch(() => ({ size: 0 }))))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}
