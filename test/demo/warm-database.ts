// The first start of the embedded database, which takes seconds, takes them on a thread of its own.
import { Worker } from 'node:worker_threads'

export interface WarmDatabase {
  readonly dataDir: string
  /** Resolves when it can be opened quickly; a failure shows when it is opened. */
  readonly ready: Promise<void>
  /** Afterwards nothing is written any more. */
  cancel(): Promise<void>
}

export const warmDatabase = (dataDir: string): WarmDatabase => {
  const worker = new Worker(new URL('./warm-database-worker.ts', import.meta.url), { workerData: { dataDir } })
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
