// Gives a demo a temporary folder of its own, and removes at the next start what a killed demo left behind.
import { mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lockDataDir } from '../../gateway/store/embedded-postgres.ts'

export interface DemoHome {
  readonly path: string
  remove(): void
}

const NAME = 'portaria-demo-'

export const createHome = (): DemoHome => {
  sweep()
  // It gets its name only when it is locked: until then nobody takes it for one left behind.
  const unlocked = mkdtempSync(join(tmpdir(), 'portaria-new-demo-'))
  const lock = lockDataDir(unlocked)
  const path = unlocked.replace(/portaria-new-demo-([^/\\]+)$/, `${NAME}$1`)
  renameSync(unlocked, path)
  return {
    path,
    remove: () => {
      removeFolder(path)
      lock?.release()
    }
  }
}

const sweep = (): void => {
  for (const name of readdirSync(tmpdir()).filter(entry => entry.startsWith(NAME))) {
    const path = join(tmpdir(), name)
    try {
      const lock = lockDataDir(path)
      if (lock === undefined) continue
      removeFolder(path)
      lock.release()
    } catch {
      // Somebody else's, or gone meanwhile.
    }
  }
}

const removeFolder = (path: string): void => rmSync(path, { recursive: true, force: true, maxRetries: 3 })
