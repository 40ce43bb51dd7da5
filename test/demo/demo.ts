// Runs the demo (`npm run demo`): everything in one process until Ctrl-C, and nothing afterwards.

// Its database is WebAssembly, which `--liftoff-only` leaves as it was first compiled: optimizing it would take a third of
// the processor time of a start.
import { createEndings } from '../support/endings.ts'
import { announcement } from './announcement.ts'
import { createHome } from './home.ts'

const CLOSE_WITHIN_MS = 1500
const PARENT_CHECK_MS = 250

const home = createHome()
process.once('exit', home.remove)

const t = createEndings()
let isStopping = false
const stop = async () => {
  // A second signal exits at once.
  if (isStopping) process.exit(0)
  isStopping = true
  setTimeout(() => process.exit(0), CLOSE_WITHIN_MS)
  await t.end()
  process.exit(0)
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
// A signal to npm alone ends only npm and its shell.
const parent = process.ppid
const isOfNpm = ['demo', 'npx'].includes(process.env.npm_lifecycle_event ?? '')
const followParent = () => {
  if (process.ppid !== parent && !isStopping) void stop()
}
if (isOfNpm) setInterval(followParent, PARENT_CHECK_MS).unref()
// The reader of the output has gone (`npm run demo | head`).
process.stdout.on('error', stop)

const { PORT = '', HOST = '127.0.0.1', LOG_LEVEL = 'warn', http_proxy, all_proxy, ALL_PROXY } = process.env
try {
  if (!/^\s*\d{0,5}\s*$/.test(PORT) || Number(PORT) > 65_535)
    throw new Error('PORT must be a whole number from 0 to 65535')
  console.log('Portaria demo starts …')
  // Its modules take a second or more to load.
  const { startDemo } = await import('./start-demo.ts')
  const demo = await startDemo(t, {
    home: home.path,
    host: HOST,
    port: Number(PORT === '' ? 3000 : PORT),
    portMayDiffer: PORT === '',
    logLevel: LOG_LEVEL
  })
  console.log(announcement(demo, (http_proxy ?? all_proxy ?? ALL_PROXY) !== undefined))
} catch (error) {
  if (!isStopping) console.error(`The demo cannot start: ${error instanceof Error ? error.message : 'unknown reason'}`)
  process.exit(isStopping ? 0 : 1)
}
