// Calls back once, shortly after the route files of a directory have changed, in whatever way.

import { type FSWatcher, watch } from 'node:fs'
import { join } from 'node:path'
import { task } from '../values/contain.ts'
import { stampOf } from '../values/file-stamp.ts'
import { listRouteFiles } from './read.ts'

interface FolderWatch {
  close(): void
}

interface WatchOptions {
  readonly folder: string
  /** Further files to watch: those that the route files name. */
  readonly alsoWatched: () => readonly string[]
  /** Several saves within this time count as one change. */
  readonly debounceMs: number
  /** How often names, inodes, sizes and times are compared, for swapped links and mounts without notifications. */
  readonly pollMs: number
  /** Fingerprint of what is in use; changes made since then are reported at once. */
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
    debounce = setTimeout(task(onChange), debounceMs)
  }
  const startWatcher = (): void => {
    try {
      watcher = watch(folder, { persistent: false }, task(announce))
      // If the directory is removed, its watcher ends; the poll starts a new one when it is back.
      watcher.on('error', task(stopWatcher))
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
  task(poll)()
  const timer = setInterval(task(poll), pollMs)
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

/** The directory's own identity in the first line, then one line per file, following links. Never rejects. */
export const fingerprint = async (folder: string, further: readonly string[] = []): Promise<string> => {
  const names = await listRouteFiles(folder).catch(() => [])
  const paths = [folder, ...names.map(name => join(folder, name)), ...further]
  const stamps = await Promise.all(paths.map(stampOf))
  // Only the identity of the directory: its times change with unrelated files.
  return stamps.map((stamp, i) => `${paths[i]} ${stamp?.identity ?? '-'} ${i === 0 ? '' : stamp?.version}`).join('\n')
}
