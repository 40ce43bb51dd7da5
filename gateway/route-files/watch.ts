// Calls back once the route files of a directory have changed, in whatever way, and have then been left alone for a while.
import { join } from 'node:path'
import { everyInTurn } from '../values/contain.ts'
import { stampOf } from '../values/file-stamp.ts'
import { listRouteFiles } from './read.ts'

interface WatchOptions {
  readonly folder: string
  /** Further files to watch: those that the route files name. */
  readonly alsoWatched: () => readonly string[]
  /** A copy that is still being written changes again within this time. */
  readonly quietMs: number
  /** How often names, inodes, sizes and times are compared: links and mounts change without notifications. */
  readonly pollMs: number
  /** Fingerprint of what is in use. */
  readonly since: string
  readonly onChange: () => void
}

export const watchFolder = ({ folder, alsoWatched, quietMs, pollMs, since, onChange }: WatchOptions) => {
  let isClosed = false
  let known = since
  /** Monotonic milliseconds; undefined: what is in use is what was found last. */
  let changedAt: number | undefined

  const poll = async (): Promise<void> => {
    const found = await fingerprint(folder, alsoWatched())
    const now = performance.now()
    if (isClosed) return
    if (found !== known) {
      known = found
      changedAt = now
    } else if (changedAt !== undefined && now - changedAt >= quietMs) {
      changedAt = undefined
      onChange()
    }
  }
  const stop = everyInTurn(pollMs, poll)
  return {
    /** Calls back soon, as after a change. */
    again() {
      changedAt = Number.NEGATIVE_INFINITY
    },
    close() {
      isClosed = true
      stop()
    }
  }
}

/** One line per file, following links. Of the directory only its identity: its times change with unrelated files. Never rejects. */
export const fingerprint = async (folder: string, further: readonly string[] = []): Promise<string> => {
  const names = await listRouteFiles(folder).catch(() => [])
  const paths = [folder, ...names.map(name => join(folder, name)), ...further]
  const stamps = await Promise.all(paths.map(stampOf))
  return stamps.map((stamp, i) => `${paths[i]} ${stamp?.identity ?? '-'} ${i === 0 ? '' : stamp?.version}`).join('\n')
}
