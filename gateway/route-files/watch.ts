// Calls back once the route files of a directory have changed, in whatever way, and have then been left alone for a while.
import { join } from 'node:path'
import { everyInTurn } from '../values/contain.ts'
import { stampLines, stampOf } from '../values/file-stamp.ts'
import { listRouteFiles } from './read.ts'

interface WatchOptions {
  readonly folder: string
  /** Further files to watch: those that the route files name. */
  readonly alsoWatched: () => readonly string[]
  /** A copy that is still being written changes again within this time. */
  readonly quietMs: number
  /** How often names, inodes, sizes and times are compared: links and mounts change without notifications. */
  readonly pollMs: number
  /** Fingerprint of what was read last, from before it was read. */
  readonly seen: () => string
  readonly onChange: () => void
  /** The files have kept changing for so long that somebody should know. */
  readonly onUnrest: () => void
}

/** Times `quietMs`. */
const UNREST = 15

export const watchFolder = ({ folder, alsoWatched, quietMs, pollMs, seen, onChange, onUnrest }: WatchOptions) => {
  let isClosed = false
  let known = seen()
  /** Monotonic milliseconds; undefined: what is in use is what was found last. */
  let changedAt: number | undefined
  /** The first change since then; Infinity: reported. */
  let unrestSince: number | undefined

  const poll = async (): Promise<void> => {
    const found = await fingerprint(folder, alsoWatched())
    const now = performance.now()
    if (isClosed) return
    const isChange = found !== known && found !== seen()
    known = found
    if (isChange) {
      changedAt = now
      unrestSince ??= now
      if (now - unrestSince < UNREST * quietMs) return
      unrestSince = Number.POSITIVE_INFINITY
      onUnrest()
    } else if (changedAt !== undefined && now - changedAt >= quietMs) {
      changedAt = undefined
      unrestSince = undefined
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
  const lines = await stampLines([...names.map(name => join(folder, name)), ...further])
  return [`${folder} ${(await stampOf(folder))?.identity}`, ...lines].join('\n')
}
