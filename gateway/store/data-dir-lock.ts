// Locks a data directory for one process at a time, with a kernel lock that ends with the process, however it dies.
import { rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

export interface DataDirLock {
  release(): void
}

/**
 * Takes the lock of a directory, or returns undefined while another process (or this one) holds it.
 * Node does not provide flock(2); an exclusively locked SQLite file is the file lock that it does provide.
 */
export const lockDataDir = (dataDir: string): DataDirLock | undefined => {
  const path = join(dataDir, 'portaria.lock')
  for (;;) {
    const before = inode(path)
    const file = new DatabaseSync(path, { timeout: 0 })
    try {
      file.exec('BEGIN EXCLUSIVE')
    } catch (error) {
      file.close()
      if (isLocked(error)) return undefined
      throw error
    }
    // The holder removes the file when it ends, so only a lock on the file that is there now counts.
    if (before !== undefined && inode(path) === before) return { release: () => release(file, path) }
    file.close()
  }
}

const release = (file: DatabaseSync, path: string) => {
  if (!file.isOpen) return
  rmSync(path, { force: true })
  file.close()
}

const inode = (path: string) => statSync(path, { throwIfNoEntry: false })?.ino

const isLocked = (error: unknown) => error instanceof Error && 'errcode' in error && error.errcode === 5
