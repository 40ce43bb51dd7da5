// The first start of the embedded database, which takes seconds, takes them on a thread of its own.
import { Worker } from 'node:worker_threads'
import { moduleUrl } from '../../gateway/values/package-files.ts'

export interface WarmDatabase {
  readonly dataDir: string
  /** Resolves when it can be opened quickly; a failure shows when it is opened. */
  readonly ready: Promise<void>
  /** Afterwards nothing is written any more. */
  cancel(): Promise<void>
}

export const warmDatabase = (dataDir: string): WarmDatabase => {
  const worker = new Worker(moduleUrl('test/demo/warm-database-worker.ts'), { workerData: { dataDir } })
  const ready = new Promise<void>(resolve => {
    worker.once('error', () => resolve())
    worker.once('exit', () => resolve())
  })
  return {
    dataDir,
    ready,
    cancel: async () => {
      await worker.terminate()
    }
  }
}
