// Runs one worker: a whole gateway that shares its listener with its siblings and obeys only the primary process.
import { type SharedListener, startGateway } from '../gateway.ts'
import { createCalls } from '../instances/calls.ts'
import { type CertificateState, followCertificates } from '../listener/certificates.ts'
import { createLogSink, SHARED_PIPE_WRITE } from '../observe/log-sink.ts'
import { createLog, lostLine } from '../observe/logging.ts'
import type { RouteDefinitions } from '../route-files/read.ts'
import type { Settings } from '../settings/settings.ts'
import { EXIT, exitStatusOf, failureText, isPlainFailure } from './start-failure.ts'
import { drainAfterFault } from './unplaced-faults.ts'

// A terminal or a service manager signals all processes at once; only the primary decides what follows. SIGUSR1 is as there.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1'] as const) process.on(signal, () => undefined)

// If the primary ends, it closes the channel, and node:cluster then ends this process.
const primary = createCalls(message => {
  // Nothing can be done about a channel that breaks at this point.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined)
})
process.on('message', message => primary.receive(message))
const fail = async (error: unknown): Promise<never> => {
  await primary.call('failed', { text: failureText(error), status: exitStatusOf(error) }).catch(() => undefined)
  process.exit(EXIT.notNow)
}
// Validated once: files named in the environment may be changing when a worker is replaced.
const settings = (await primary.call('settings').catch(fail)) as Settings
const log = createLog({ level: settings.logLevel }, createLogSink({ maxWrite: SHARED_PIPE_WRITE, lostLine }))

/** The primary in between waits less. */
const CONNECTIONS_MS = 1000
const RELOAD_MS = 60_000

const reload = () => primary.call('reload', undefined, { timeoutMs: RELOAD_MS })

const askConnections: SharedListener['askConnections'] = async claims => {
  const counts = await primary.call('connections', claims, { timeoutMs: CONNECTIONS_MS }).catch(() => [])
  return Array.isArray(counts) ? counts : []
}

const askDefinitions: SharedListener['askDefinitions'] = async () =>
  (await primary.call('definitions')) as RouteDefinitions | undefined

try {
  // The ops listener and the delay before the drain belong to the primary.
  const withoutOps = { ...settings, drainDelayMs: 0, ops: { ...settings.ops, port: undefined } }
  const certificate = (await primary.call('certificate')) as CertificateState | undefined
  const certificates =
    certificate && followCertificates(certificate, take => primary.answer('certificate.changed', take))
  const gateway = await startGateway(withoutOps, log, {}, { certificates, askConnections, reload, askDefinitions })
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= gateway.close()
    return closing
  }
  drainAfterFault(log, close, settings.drainTimeoutMs)
  primary.answer('metrics', gateway.metrics)
  primary.answer('connections', gateway.connections)
  primary.answer('definitions', gateway.definitions)
  primary.answer('reload', gateway.reload)
  primary.answer('end.announce', gateway.announceEnd)
  primary.answer('close', () => {
    close().then(
      () => process.exit(0),
      error => {
        log.error({ err: error }, 'a worker could not stop cleanly')
        process.exit(EXIT.fault)
      }
    )
  })
  await primary.call('ready', gateway.port)
} catch (error) {
  if (!isPlainFailure(error)) log.fatal({ err: error }, 'a worker cannot start')
  await fail(error)
}
