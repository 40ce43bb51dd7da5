// Keeps what the tests of a run write in memory, where the machine has plenty: a thousand databases come and go with each run.
import { accessSync, chmodSync, constants, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'

/** tmpfs(5), on Linux. */
const MEMORY = '/dev/shm'
const PREFIX = 'portaria-tests-'
const GIGABYTE = 2 ** 30
/** Of which a run takes less than one. */
const LEAST_ROOM = 2 * GIGABYTE
const LEAST_MEMORY = 6 * GIGABYTE

interface MemoryFolder {
  readonly path: string
  remove(): void
}

/**
 * A folder for temporary files; undefined if the system's own is to be used. Removed files are what makes the difference:
 * ext4 looks through those of the last minutes for each file that it creates, which takes most of the time of creating a
 * database.
 */
export const makeMemoryFolder = (): MemoryFolder | undefined => {
  if ((process.env.TMPDIR ?? '') !== '' || process.availableMemory() < LEAST_MEMORY || !isUsable()) return undefined
  removeLeftOver()
  const path = join(MEMORY, `${PREFIX}${process.pid}`)
  mkdirSync(path, { recursive: true })
  // Postgres runs as a user of its own.
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

const isUsable = (): boolean => {
  try {
    accessSync(MEMORY, constants.W_OK)
    const { bavail, bsize } = statfsSync(MEMORY)
    const mount = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .find(line => line.split(' ')[1] === MEMORY)
    // Some tests run what they write.
    return mount !== undefined && !/[ ,]noexec\b/.test(mount) && bavail * bsize >= LEAST_ROOM
  } catch {
    return false
  }
}

/** Of runs that were killed. */
const removeLeftOver = () => {
  for (const name of readdirSync(MEMORY).filter(each => each.startsWith(PREFIX)))
    if (!isRunning(Number(name.slice(PREFIX.length)))) rmSync(join(MEMORY, name), { recursive: true, force: true })
}

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
