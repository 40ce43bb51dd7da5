// Reuses code that an earlier start has compiled; compiling takes a quarter of a start.
import { enableCompileCache, getCompileCacheDir } from 'node:module'
import { dirname, join } from 'node:path'
import { boundYoungGeneration } from './young-generation.ts'

/** Beside the dependencies, and to be protected as they are: what lies here is run. `main.cjs` names it too. */
const FOLDER = join(import.meta.dirname, '../../node_modules/.cache/portaria')

/**
 * For all that is imported from now on; what this process compiles is kept when it exits. Where nothing can be kept, as
 * in a read-only image, nothing is. `NODE_COMPILE_CACHE` and `NODE_DISABLE_COMPILE_CACHE` have precedence.
 */
export const useCompiledCode = (): void => {
  enableCompileCache(FOLDER)
  // Code is for the flags that it was compiled under, so they are set here, for all who keep it or use it.
  boundYoungGeneration()
}

/** Lets a new process use it from its first file on; nothing where nothing is kept. */
export const compiledCodeEnv = (): { NODE_COMPILE_CACHE?: string } => {
  // A folder for each version of Node below the one that is named.
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}
