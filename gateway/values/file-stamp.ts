// Tells one version of a file or folder from the next, without reading it.
import { stat } from 'node:fs/promises'

interface FileStamp {
  /** Which file lies at the path, links followed; another file in its place has another. */
  readonly identity: string
  /** Changes with its content. */
  readonly version: string
}

/** undefined: nothing can be found there. Never rejects. */
export const stampOf = async (path: string): Promise<FileStamp | undefined> => {
  const stats = await stat(path, { bigint: true }).catch(() => undefined)
  return (
    stats && {
      identity: `${stats.dev} ${stats.ino}`,
      version: `${stats.size} ${stats.mtimeNs} ${stats.ctimeNs}`
    }
  )
}
