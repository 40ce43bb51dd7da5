// Reads route files without delaying requests: small ones at once, large ones in a thread that ends with the memory that it took.
import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { moduleUrl } from '../values/package-files.ts'
import { listRouteFiles, type RouteDefinitions, readRouteFiles } from './read.ts'

/** Parsing this much takes a few milliseconds. */
const INLINE_BYTES = 32 * 1024

/** See `readRouteFiles`. Rejects only if the thread cannot run, or if `signal` ends it. */
export const readInBackground = async (folder: string, signal: AbortSignal): Promise<RouteDefinitions> => {
  if ((await sizeOf(folder)) <= INLINE_BYTES) return readRouteFiles(folder)
  signal.throwIfAborted()
  const thread = new Worker(moduleUrl('gateway/route-files/reader-thread.ts'), { workerData: folder })
  let definitions: RouteDefinitions | undefined
  thread.once('message', message => {
    definitions = message
  })
  await once(thread, 'exit', { signal }).finally(() => thread.terminate())
  if (definitions === undefined) throw new Error('the thread that reads route files ended')
  return definitions
}

const sizeOf = async (folder: string): Promise<number> => {
  const names = await listRouteFiles(folder).catch(() => [])
  const sizes = await Promise.all(names.map(name => stat(join(folder, name)).catch(() => ({ size: 0 }))))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}
