// Reads route files without delaying requests: small ones at once, large ones in a separate thread.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { moduleUrl } from '../values/package-files.ts'
import { listRouteFiles, type RouteDefinitions, readRouteFiles } from './read.ts'

interface RouteFileReader {
  /** See `readRouteFiles`. Rejects only if the thread cannot run, or is closed. */
  read(folder: string): Promise<RouteDefinitions>
  close(): Promise<void>
}

/** Parsing this much takes a few milliseconds. */
const INLINE_BYTES = 32 * 1024

export const createRouteFileReader = (): RouteFileReader => {
  let worker: Worker | undefined
  let last: Promise<unknown> = Promise.resolve()
  let isClosed = false

  const ask = async (folder: string): Promise<RouteDefinitions> => {
    if (isClosed) throw new Error('the reader of route files is closed')
    worker ??= new Worker(moduleUrl('gateway/route-files/reader-thread.ts'))
    const asked = worker
    try {
      return await answerOf(asked, folder)
    } catch (error) {
      worker = undefined
      await asked.terminate()
      throw error
    }
  }
  const askInTurn = (folder: string): Promise<RouteDefinitions> => {
    const answer = last.then(() => ask(folder))
    last = answer.catch(() => undefined)
    return answer
  }
  return {
    read: async folder => ((await sizeOf(folder)) <= INLINE_BYTES ? readRouteFiles(folder) : askInTurn(folder)),
    async close() {
      isClosed = true
      await worker?.terminate()
      worker = undefined
    }
  }
}

const answerOf = async (worker: Worker, folder: string): Promise<RouteDefinitions> => {
  // An idle thread must not keep the process alive.
  worker.ref()
  const { promise, resolve, reject } = Promise.withResolvers<RouteDefinitions>()
  const onExit = (): void => reject(new Error('the thread that reads route files ended'))
  worker.once('message', resolve).once('error', reject).once('exit', onExit)
  try {
    worker.postMessage(folder)
    return await promise
  } finally {
    worker.off('message', resolve).off('error', reject).off('exit', onExit)
    worker.unref()
  }
}

const sizeOf = async (folder: string): Promise<number> => {
  const names = await listRouteFiles(folder).catch(() => [])
  const sizes = await Promise.all(names.map(name => stat(join(folder, name)).catch(() => ({ size: 0 }))))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}
