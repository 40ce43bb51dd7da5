// The embedded database exists and its schema is up to date, made on a thread of its own while other parts start.
import { workerData } from 'node:worker_threads'
import { openDatabase } from '../../gateway/store/database.ts'
import { fillDataDir } from '../support/embedded-template.ts'

const silent = { info() {}, warn() {}, error() {} }
const { dataDir }: { dataDir: string } = workerData
await fillDataDir(dataDir)
const database = await openDatabase({ dataDir, log: silent })
await database.close()
