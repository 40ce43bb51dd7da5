// Distinguishes versions of a file or directory without reading it.
import { stat } from 'node:fs/promises'

/** undefined: there is no file. Never rejects. */
export const stampOf = async (path: string) => {
  const stats = await stat(path, { bigint: true }).catch(() => undefined)
  return (
    stats && {
      /** Follows links; a file that replaces another has another. */
      identity: `${stats.dev} ${stats.ino}`,
      /** Changes with its contents. */
      version: `${stats.size} ${stats.mtimeNs} ${stats.ctimeNs}`
    }
  )
}

/** One line for each of these files. */
export const stampLines = (paths: readonly string[]): Promise<string[]> =>
  Promise.all(
    paths.map(async path => {
      const stamp = await stampOf(path)
      return `${path} ${stamp?.identity ?? '-'} ${stamp?.version}`
    })
  )
