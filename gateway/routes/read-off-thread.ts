// Route files are read in another thread, so that a large table never makes requests wait.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { type RouteDefinitions, readRouteFiles } from './read-route-files.ts'

/** As `readRouteFiles`, in a thread of its own. Rejects only when the thread cannot run. */
export const readOffThread = (folder: string): Promise<RouteDefinitions> =>
  new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: { readRouteFilesOf: folder } })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('the thread that reads route files ended early')))
  })

const folder: unknown = isMainThread ? undefined : workerData?.readRouteFilesOf
if (typeof folder === 'string') parentPort?.postMessage(await readRouteFiles(folder))
