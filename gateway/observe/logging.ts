// Creates the single pino logger of the process: JSON lines without secrets, errors with their causes.
import { type Bindings, type Logger, pino } from 'pino'
import { createLogSink, type LogSink } from './log-sink.ts'
import { redact, redactText, redactUrl } from './redaction.ts'

/**
 * The logger. Fields named like secrets are replaced at any depth; `err`, `error` and `cause` are written with their
 * `code`, `reason` and causes; `req` is only its method and its URL without secrets.
 *
 * @param level a pino level, as in LOG_LEVEL.
 * @param sink where the lines go; pass your own to read `dropped()` for a metric. Default: standard output.
 */
export const createLog = (
  { level = 'info' }: { readonly level?: string } = {},
  sink: Pick<LogSink, 'write'> & Partial<LogSink> = createLogSink({ lostLine })
): Logger => {
  const log = pino(
    {
      level,
      base: { pid: process.pid },
      serializers: SERIALIZERS,
      formatters: { log: redactFields },
      // The last safeguard, for text that no field name identifies as secret.
      hooks: { streamWrite: redactText }
    },
    sink
  )
  // pino omits formatters.bindings for children; all loggers further down inherit this method.
  const child = log.child
  log.child = function (this: Logger, bindings: Bindings, ...rest: unknown[]) {
    return Reflect.apply(child, this, [redactFields(bindings), ...rest])
  } as typeof log.child
  return log
}

export const lostLine = (lost: number): string =>
  `${JSON.stringify({
    level: pino.levels.values.warn,
    time: Date.now(),
    pid: process.pid,
    reason: 'log-overflow',
    lost,
    msg: 'log lines were lost: the output could not take them fast enough'
  })}\n`

/**
 * Writes lines of one level and message whose other fields are already JSON text (`,"name":value…`), to the same output
 * and with the same bindings. Nothing is redacted here, so the fields must not be able to contain a secret.
 */
export const lineWriter = (log: Logger, level: 'info' | 'warn', message: string): ((fields: string) => void) => {
  // What pino itself writes: its output, and its bindings as text.
  const { [pino.symbols.streamSym]: sink, [pino.symbols.chindingsSym]: bindings } = log as unknown as {
    [pino.symbols.streamSym]: Pick<LogSink, 'write'>
    [pino.symbols.chindingsSym]: string
  }
  const start = `{"level":${log.levels.values[level]},"time":`
  const end = `,"msg":${JSON.stringify(message)}}\n`
  return fields => sink.write(`${start}${Date.now()}${bindings}${fields}${end}`)
}

/** Lines that the logger's output has lost so far; 0 if it does not report any. */
export const droppedLines = (log: Logger): number => {
  const { [pino.symbols.streamSym]: sink } = log as unknown as { [pino.symbols.streamSym]: Partial<LogSink> }
  return sink.dropped?.() ?? 0
}

interface ErrorDescription extends Record<string, unknown> {
  type: string
  message: string
  cause?: ErrorDescription
}

const MAX_CAUSES = 5

/**
 * An error for the log: selected fields only, because libraries attach requests, bodies and queries with values to their
 * errors. Anything else that was thrown is logged as its type.
 */
export const describeError = (error: unknown, depth = 0): ErrorDescription => {
  if (!isObject(error)) return { type: typeof error, message: redactText(String(error)).slice(0, 500) }
  const type = textOf(read(error, 'name')) ?? error.constructor?.name ?? 'Object'
  const description: ErrorDescription = { type, message: redactText(textOf(read(error, 'message')) ?? '') }
  for (const name of ['code', 'reason', 'statusCode', 'syscall', 'address', 'port'] as const) {
    const value = read(error, name)
    if (typeof value === 'string' || typeof value === 'number') description[name] = value
  }
  const stack = textOf(read(error, 'stack'))
  if (stack !== undefined) description.stack = redactText(stack)
  const cause = read(error, 'cause')
  if (cause !== undefined && depth < MAX_CAUSES) description.cause = describeError(cause, depth + 1)
  const errors = read(error, 'errors')
  if (Array.isArray(errors) && depth < MAX_CAUSES)
    description.errors = errors.slice(0, MAX_CAUSES).map(one => describeError(one, MAX_CAUSES))
  return description
}

const describeRequest = (request: unknown) =>
  isObject(request)
    ? { id: textOf(read(request, 'id')), method: textOf(read(request, 'method')), url: redactUrl(read(request, 'url')) }
    : {}

const describeResponse = (response: unknown) => (isObject(response) ? { statusCode: read(response, 'statusCode') } : {})

const SERIALIZERS = {
  err: describeError,
  error: describeError,
  cause: describeError,
  req: describeRequest,
  res: describeResponse
}

/** Fields with a serializer keep their object; every other object is copied without secrets. */
const redactFields = (fields: Record<string, unknown>): Record<string, unknown> => {
  const described: Record<string, unknown> = {}
  const others: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (Object.hasOwn(SERIALIZERS, name)) described[name] = value
    else if (value instanceof Error) described[name] = describeError(value)
    else others[name] = value
  }
  return { ...(redact(others) as Record<string, unknown>), ...described }
}

// A getter that throws must not lose the log line, let alone the request.
const read = (value: object, name: string): unknown => {
  try {
    return (value as Record<string, unknown>)[name]
  } catch {
    return undefined
  }
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
