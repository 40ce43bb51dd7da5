// The process: settings → gateway → signals. SIGTERM and SIGINT drain, a second one exits at once, SIGHUP reloads.
import { type Gateway, startGateway } from './gateway.ts'
import { createLog } from './logging.ts'
import { formatComplaint, RouteFileError } from './routes/route-file.ts'
import { formatMistakes, readSettings, type Settings, SettingsError } from './settings.ts'

const fail = (text: string): never => {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}

const settingsOrExit = (): Settings => {
  try {
    return readSettings(process.env)
  } catch (error) {
    if (error instanceof SettingsError) return fail(formatMistakes(error.mistakes))
    throw error
  }
}

const settings = settingsOrExit()
const log = createLog({ level: settings.logLevel })
for (const warning of settings.warnings) log.warn(warning)
if (settings.databaseUrl === undefined)
  log.info({ dataDir: settings.dataDir }, 'no DATABASE_URL: people are kept in an embedded Postgres')
if (settings.redis === undefined) log.info('no REDIS_URL: requests are counted in memory')

const startOrExit = async (): Promise<Gateway> => {
  try {
    return await startGateway(settings, log)
  } catch (error) {
    if (error instanceof RouteFileError) return fail(error.complaints.map(formatComplaint).join('\n'))
    log.fatal({ err: error }, 'the gateway cannot start')
    return fail(error instanceof Error ? `The gateway cannot start: ${error.message}` : 'The gateway cannot start')
  }
}

const gateway = await startOrExit()
log.info({ port: gateway.port, url: settings.publicUrl }, 'listening')

let stopping = false
const stop = async (signal: NodeJS.Signals) => {
  if (stopping) process.exit(signal === 'SIGINT' ? 130 : 143)
  stopping = true
  log.info({ signal }, 'stopping')
  await gateway.close()
  log.info('stopped')
  process.exit(0)
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
process.on('SIGHUP', () => void gateway.reload())
