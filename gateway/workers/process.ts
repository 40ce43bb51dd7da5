// Runs the process: settings → gateway or workers → signals. SIGTERM and SIGINT drain (a second one exits), SIGHUP reloads; systemd is notified.
import { readdirSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Gateway } from '../gateway.ts'
import { createLog } from '../observe/logging.ts'
import { formatMistakes, readSettings, SettingsError } from '../settings/read-settings.ts'
import type { Environment, Mistake } from '../settings/reader.ts'
import type { Settings } from '../settings/settings.ts'
import { timerMs } from '../values/quantities.ts'
import { EXIT, exitStatusOf, failureText, isPlainFailure } from './start-failure.ts'
import { drainAfterFault } from './unplaced-faults.ts'

const fail = (text: string, status: number): never => {
  process.stderr.write(`${text}\n`)
  process.exit(status)
}

const settingsOrExit = (): Settings => {
  try {
    return readSettings(process.env)
  } catch (error) {
    if (error instanceof SettingsError) {
      const mistakes = formatMistakes([...error.mistakes, ...folderMistake(error.mistakes)])
      return fail([mistakes, ...error.misspelt].join('\n'), EXIT.mistake)
    }
    throw error
  }
}

/** So that a start beside other mistakes does not leave it to the next one, which reads the route files. */
const folderMistake = (known: readonly Mistake[]): Mistake[] => {
  const variable = 'UPSTREAM_CONFIG'
  const folder = process.env[variable]?.trim() ?? ''
  if (folder === '' || known.some(mistake => mistake.variable === variable)) return []
  try {
    readdirSync(folder)
    return []
  } catch {
    return [{ variable, message: 'must name the folder of the route files, which cannot be read' }]
  }
}

/** npm passes on a signal that a terminal or a service manager has sent to both; that is not a second one. */
const ECHO_MS = 500

/** What follows the drain: the last entries of the log and the database. */
const END_MS = 4_000

/**
 * Signals are handled from the first moment, because process 1 of a container has no default actions.
 * @param mostMs after which SIGTERM ends the process, whatever it waits for
 */
const obeySignals = (log: Logger, mostMs: number) => {
  let gateway: Gateway | undefined
  /** Monotonic milliseconds. */
  let stoppingSince: number | undefined
  let closing: Promise<void> | undefined
  /** Until something serves, there is nothing to drain. */
  const close = async () => {
    closing ??= gateway?.close()
    await closing
  }
  const stop = async (signal: NodeJS.Signals) => {
    if (stoppingSince !== undefined) {
      if (performance.now() - stoppingSince < ECHO_MS) return
      process.exit(signal === 'SIGINT' ? 130 : 143)
    }
    stoppingSince = performance.now()
    log.info({ signal }, 'stopping')
    setTimeout(() => {
      log.error('the gateway did not stop in time; it ends now')
      process.exit(EXIT.fault)
    }, timerMs(mostMs)).unref()
    try {
      await close()
    } catch (error) {
      log.error({ err: error }, 'the gateway could not stop cleanly')
      process.exit(EXIT.fault)
    }
    log.info('stopped')
    // Not 0 after a fault.
    process.exit(process.exitCode ?? 0)
  }
  // At SIGUSR1, on which other servers open their logs anew, Node.js would open its debugger, to everybody on this machine.
  process.on('SIGUSR1', () => undefined)
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  process.on('SIGHUP', () => {
    gateway?.reload(true).catch(error => log.error({ err: error }, 'a reload failed'))
  })
  return {
    isStopping: () => stoppingSince !== undefined,
    close,
    serving(running: Gateway) {
      gateway = running
    }
  }
}

const startOrExit = async (
  settings: Settings,
  log: Logger,
  onServing: (gateway: Gateway) => void
): Promise<Gateway> => {
  const onGiveUp = () => {
    log.fatal('no worker can be started')
    fail('No worker can be started', EXIT.notNow)
  }
  try {
    // Loaded only now, and only what is needed, so that mistakes and signals do not wait for it.
    if (settings.workers === 1) return await (await import('../gateway.ts')).startGateway(settings, log)
    return await (await import('./primary.ts')).startWorkers(settings, log, { onServing, onGiveUp })
  } catch (error) {
    if (!isPlainFailure(error)) log.fatal({ err: error }, 'the gateway cannot start')
    return fail(failureText(error), exitStatusOf(error))
  }
}

/** What the embedded Postgres needs at its first start, with the gateway. */
const EMBEDDED_MB = 1024

const announceEmbedded = (dataDir: string, log: Logger): void => {
  log.info(
    { dataDir },
    'DATABASE_URL is not set: data is kept in an embedded Postgres, all of which a power cut may destroy'
  )
  const limitMb = process.constrainedMemory() / 2 ** 20
  if (limitMb > 0 && limitMb < EMBEDDED_MB)
    log.warn(
      { limitMb: Math.floor(limitMb), neededMb: EMBEDDED_MB },
      'the memory limit of this process is too low for the embedded Postgres, so the system may kill it; raise the limit or set DATABASE_URL'
    )
}

/**
 * Tells systemd that the gateway serves (Type=notify), as sd_notify(3) says. Node.js cannot send datagrams to a unix socket, so a
 * program of systemd does it.
 */
const notifyReady = async (log: Logger): Promise<void> => {
  const { execFile } = await import('node:child_process')
  execFile('systemd-notify', ['--ready'], error => {
    if (error) log.warn({ err: error }, 'systemd cannot be told that the gateway serves; set Type=exec in its unit')
  })
}

/** Resolves when it serves; the process then ends by a signal or a fault. Ends the process if it cannot start. */
export const runGateway = async (environment: Environment): Promise<void> => {
  Object.assign(process.env, environment)
  const settings = settingsOrExit()
  const { publicUrl, workers } = settings
  const log = createLog({ level: settings.logLevel })
  const drainMs = settings.drainDelayMs + settings.drainTimeoutMs
  const signals = obeySignals(log, drainMs + END_MS)
  drainAfterFault(log, signals.close, drainMs)
  for (const warning of settings.warnings) log.warn(warning)
  if (settings.databaseUrl === undefined) announceEmbedded(settings.dataDir, log)
  if (settings.redis === undefined) log.info('REDIS_URL is not set: requests are counted in memory')
  const gateway = await startOrExit(settings, log, signals.serving)
  signals.serving(gateway)
  if (signals.isStopping()) return
  log.info({ port: gateway.port, url: publicUrl, workers }, 'listening')
  if (process.env.NOTIFY_SOCKET !== undefined) await notifyReady(log)
}
