// Reads route files without delaying requests: small ones at once, large ones in a process that ends with the memory that it took.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { moduleUrl } from '../values/package-files.ts'
import { listRouteFiles, type RouteDefinitions, readRouteFiles } from './read.ts'

/** Parsing this much takes a few milliseconds. */
const INLINE_BYTES = 32 * 1024

/** See `readRouteFiles`. Rejects only if the process cannot run, or if `signal` ends it. */
export const readInBackground = async (folder: string, signal: AbortSignal): Promise<RouteDefinitions> => {
  if ((await sizeOf(folder)) <= INLINE_BYTES) return readRouteFiles(folder)
  signal.throwIfAborted()
  // No thread: the fault of Node.js that ends one now and then as it starts ends this process too (nodejs/node#60755).
  const reader = fork(moduleUrl('gateway/route-files/reader-process.ts'), [folder], {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    killSignal: 'SIGKILL',
    signal
  })
  // `once` passes on the first error; one that is ended late has another.
  reader.on('error', () => undefined)
  let definitions: RouteDefinitions | undefined
  reader.once('message', message => {
    definitions = message as RouteDefinitions
  })
  // After the last message, however the process ends.
  await once(reader, 'disconnect')
  if (definitions === undefined) throw new Error('the process that reads route files ended')
  return definitions
}

const sizeOf = async (folder: string): Promise<number> => {
  const names = await listRouteFiles(folder).catch(() => [])
  const sizes = await Promise.all(names.map(name => stat(join(folder, name)).catch(() => ({ size: 0 }))))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}
