// Keeps the route table in step with the files: each change is read completely, and swapped in only if all of it is valid.

import type { RouteTable, WrittenRoute } from '../routes/route.ts'
import { coalesce } from '../values/coalesce.ts'
import { noteOutOfDescriptors } from '../values/descriptors.ts'
import { type Complaint, RouteFileError } from './complaint.ts'
import { type LoadOptions, loadRoutes } from './load.ts'
import { readInBackground } from './reader.ts'
import { createTableInUse, type ReloadLog, type TableStatus } from './table-in-use.ts'
import { fingerprint, watchFolder } from './watch.ts'

export interface LiveRoutes {
  /** The table in use. Requests keep the route they matched, so a swap never changes one midway. */
  current(): RouteTable
  /** Passes a follower the current table, and each later one. */
  follow(follower: (table: RouteTable) => void): void
  /**
   * Reads the files now; reloads never overlap. True if a table was swapped in or nothing had changed.
   * @param isAsked someone requested it, so the log also says when nothing has changed
   */
  reload(isAsked?: boolean): Promise<boolean>
  status(): TableStatus
  /** Stops watching and waits for a reload in progress, whose result is dropped. */
  close(): Promise<void>
}

export interface LiveRoutesOptions extends Omit<LoadOptions, 'upstreamsInUse' | 'read'> {
  readonly folder: string
  readonly ownRoutes: readonly WrittenRoute[]
  readonly log: ReloadLog
  /** Called after each reload, whatever its result. */
  readonly onReload?: (ok: boolean) => void
  /** Called instead of `reload` when the files have changed. */
  readonly onChange?: (() => Promise<unknown>) | undefined
  readonly debounceMs?: number
  readonly pollMs?: number
  readonly now?: () => Date
}

/** A copy that is still being written changes again within this time; SIGHUP loads at once. */
const QUIET_MS = 2000

/**
 * Loads the routes and keeps them current.
 * @throws {RouteFileError} if the first load fails, because there is no earlier table to keep
 */
export const createLiveRoutes = async (options: LiveRoutesOptions): Promise<LiveRoutes> => {
  const { folder, ownRoutes, log, onReload, debounceMs = QUIET_MS, pollMs = 2000 } = options
  // Taken before the files are read, so that a save in between is seen as a change.
  const since = await fingerprint(folder)
  const closing = new AbortController()
  const closed = closing.signal
  /** A replaced certificate takes effect although no route file has changed. */
  let certificateFiles: readonly string[] = []
  const read = async (from: string) => {
    const definitions = await readInBackground(from, closed)
    certificateFiles = definitions.certificateFiles
    return definitions
  }
  const first = await loadRoutes(folder, ownRoutes, { ...options, read })
  const inUse = createTableInUse(first, { log, now: options.now ?? (() => new Date()) })
  let again: NodeJS.Timeout | undefined
  /** The files have changed, but none could be opened. */
  const readAgain = () => {
    clearTimeout(again)
    if (!closed.aborted) again = setTimeout(onFilesChanged, pollMs).unref()
  }
  const onFilesChanged = () =>
    void (options.onChange ?? reload)().catch(error => log.error({ err: error }, 'a reload failed'))
  /** Reads the files; the result puts them into use, and says whether they have no errors. */
  const prepare = async (): Promise<(isAsked: boolean) => boolean> => {
    try {
      const upstreamsInUse = inUse.current().upstreams
      const loaded = await loadRoutes(folder, ownRoutes, { ...options, upstreamsInUse, read })
      return isAsked => inUse.accept(loaded, isAsked)
    } catch (error) {
      if (noteOutOfDescriptors(error)) {
        readAgain()
        return () => false
      }
      if (!(error instanceof RouteFileError) && !closed.aborted)
        log.error({ err: error }, 'the route files could not be reloaded')
      return () => inUse.refuse(complaintsOf(error, folder))
    }
  }
  const reload = coalesce(async (isAsked): Promise<boolean> => {
    if (closed.aborted) return false
    const apply = await prepare()
    if (closed.aborted) return false
    const ok = apply(isAsked)
    onReload?.(ok)
    return ok
  })

  const watch = watchFolder({
    folder,
    alsoWatched: () => certificateFiles,
    debounceMs,
    pollMs,
    since,
    onChange: onFilesChanged
  })
  return {
    current: inUse.current,
    follow: inUse.follow,
    reload,
    status: inUse.status,
    async close() {
      closing.abort()
      clearTimeout(again)
      watch.close()
      await reload.idle()
    }
  }
}

const complaintsOf = (error: unknown, folder: string): readonly Complaint[] => {
  if (error instanceof RouteFileError) return error.complaints
  return [{ file: folder, line: 1, column: 1, message: 'the files could not be loaded' }]
}
