// Calls back once, shortly after the route files of a directory have changed, however they changed.
import { type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { listRouteFiles } from './read.ts'

interface FolderWatch {
  close(): void
}

interface WatchOptions {
  readonly folder: string
  /** Further files whose changes count: those that the route files name. */
  readonly alsoWatched: () => readonly string[]
  /** Several saves within this time are one change. */
  readonly debounceMs: number
  /** How often names, inodes, sizes and times are compared: for swapped links and mounts that do not notify. */
  readonly pollMs: number
  /** Fingerprint of what is in use; what has changed since then is announced at once. */
  readonly since: string
  readonly onChange: () => void
}

export const watchFolder = (options: WatchOptions): FolderWatch => {
  const { folder, alsoWatched, debounceMs, pollMs, since, onChange } = options
  let isClosed = false
  let debounce: NodeJS.Timeout | undefined
  let known = since
  let watcher: FSWatcher | undefined

  const announce = (): void => {
    if (isClosed) return
    clearTimeout(debounce)
    debounce = setTimeout(onChange, debounceMs)
  }
  const startWatcher = (): void => {
    try {
      watcher = watch(folder, { persistent: false }, announce)
      // A removed folder ends its watcher; the poll starts a new one when it is back.
      watcher.on('error', stopWatcher)
    } catch {
      watcher = undefined
    }
  }
  const stopWatcher = (): void => {
    watcher?.close()
    watcher = undefined
  }
  const poll = async (): Promise<void> => {
    const now = await fingerprint(folder, alsoWatched())
    if (isClosed) return
    const isFolderReplaced = known.split('\n')[0] !== now.split('\n')[0]
    if (isFolderReplaced || watcher === undefined) {
      stopWatcher()
      startWatcher()
    }
    if (now !== known) announce()
    known = now
  }

  startWatcher()
  void poll()
  const timer = setInterval(() => void poll(), pollMs)
  timer.unref()
  return {
    close() {
      isClosed = true
      clearTimeout(debounce)
      clearInterval(timer)
      stopWatcher()
    }
  }
}

/** The folder's own identity in the first line, then one line a file, following links. Never rejects. */
export const fingerprint = async (folder: string, further: readonly string[] = []): Promise<string> => {
  const names = await listRouteFiles(folder).catch(() => [])
  const lines = await Promise.all([folder, ...names.map(name => join(folder, name)), ...further].map(identityOf))
  return lines.join('\n')
}

const identityOf = async (path: string, index: number): Promise<string> => {
  const stats = await stat(path, { bigint: true }).catch(() => undefined)
  if (stats === undefined) return `${path} -`
  const identity = `${path} ${stats.dev} ${stats.ino}`
  return index === 0 ? identity : `${identity} ${stats.size} ${stats.mtimeNs} ${stats.ctimeNs}`
}
