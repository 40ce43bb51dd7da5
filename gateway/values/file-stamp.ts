// Distinguishes versions of a file or directory without reading it.
import { stat } from 'node:fs/promises'

interface FileStamp {
  /** Identity of the file at the path, following links; a replaced file has another. */
  readonly identity: string
  /** Changes with its contents. */
  readonly version: string
}

/** undefined: there is no file. Never rejects. */
export const stampOf = async (path: string): Promise<FileStamp | undefined> => {
  const stats = await stat(path, { bigint: true }).catch(() => undefined)
  return (
    stats && {
      identity: `${stats.dev} ${stats.ino}`,
      version: `${stats.size} ${stats.mtimeNs} ${stats.ctimeNs}`
    }
  )
}
