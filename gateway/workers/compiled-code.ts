// Uses code again that an earlier start has compiled: compiling it is a quarter of what a start takes.
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

/** Beside the dependencies, and to be protected as they are: what lies here is run. */
const FOLDER = join(import.meta.dirname, '../../node_modules/.cache/portaria')

/**
 * For all that is imported from now on; what this process compiles is kept when it exits. Where nothing can be kept, as
 * in a read-only image, nothing is. `NODE_COMPILE_CACHE` and `NODE_DISABLE_COMPILE_CACHE` have precedence.
 */
export const useCompiledCode = (): void => void enableCompileCache(FOLDER)
