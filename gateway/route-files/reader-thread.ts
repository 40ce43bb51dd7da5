// Reads large route files in a thread of its own, which is started with the name of their folder and sends what it contains.
import { parentPort, workerData } from 'node:worker_threads'
import { usePlainEnvironment } from '../settings/plain-environment.ts'
import { readRouteFiles } from './read.ts'

// The YAML parser looks a variable up for each of its tokens, which takes a fifth of the time.
usePlainEnvironment()
parentPort?.postMessage(await readRouteFiles(workerData))
