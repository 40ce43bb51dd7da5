// Reuses code that an earlier start has compiled; compiling takes a quarter of a start.
import { enableCompileCache, getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { CACHE_FOLDER } from '../values/package-files.ts'

/**
 * Covers everything imported from now on; what this process compiles is stored when it exits. If nothing can be stored, as
 * in a read-only image, nothing is. `NODE_COMPILE_CACHE` and `NODE_DISABLE_COMPILE_CACHE` take precedence.
 */
export const useCompiledCode = (): void => {
  enableCompileCache(CACHE_FOLDER)
}

/** Lets a new process use it from its first file on; does nothing if there is no cache. */
export const compiledCodeEnv = (): { NODE_COMPILE_CACHE?: string } => {
  // A directory for each version of Node, below the named one.
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}
