// Reads large route files in a thread of its own: a message names the folder, the reply is what it contains.
import { parentPort } from 'node:worker_threads'
import { usePlainEnvironment } from '../settings/node-options.ts'
import { readRouteFiles } from './read.ts'

// The YAML parser looks a variable up for each of its tokens, which takes a fifth of the time.
usePlainEnvironment()
parentPort?.on('message', async (folder: unknown) => {
  if (typeof folder === 'string') parentPort?.postMessage(await readRouteFiles(folder))
})
