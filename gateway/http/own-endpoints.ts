// Runs the gateway's own endpoints in Fastify: validates bodies, serialises responses, and gives errors one shape.
import { AsyncLocalStorage } from 'node:async_hooks'
import buildValidators from '@fastify/ajv-compiler'
import buildSerializers from '@fastify/fast-json-stringify-compiler'
import swagger from '@fastify/swagger'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifySchema,
  type InjectOptions,
  type LightMyRequestResponse,
  LogController
} from 'fastify'
import {
  BadRequest,
  BodyTooLarge,
  GatewayError,
  NoRoute,
  NotFound,
  RequestTimeout,
  Unavailable,
  UnsupportedMedia
} from '../errors.ts'
import { contain } from '../values/contain.ts'
import type { Holding } from '../values/held-memory.ts'
import { encodeRawBytes } from '../values/urls.ts'
import { BodyBuffer } from './body-buffer.ts'
import type { Exchange, Underway } from './exchange.ts'
import { openapiOptions } from './own-requests.ts'
import { asGatewayError, ownHeaders, type ResponseOptions } from './own-responses.ts'
import { type BodyConsumer, hasBody } from './request.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the steps have established about the request: its id, client, route and identity. */
    exchange: Exchange
  }
}

const BODY_LIMIT_BYTES = 64 * 1024
const BODY_TIMEOUT_MS = 30_000

interface OwnEndpointsOptions extends Pick<ResponseOptions, 'origins'> {
  log: FastifyBaseLogger
  refuse: (exchange: Exchange, error: GatewayError) => void
  /** Checks the sender again when a body has arrived: that takes up to half a minute, and access may have ended by then. */
  checkAgain?: (exchange: Exchange) => GatewayError | undefined
  /** Registers the endpoints, in the order of the contract. */
  register: (app: FastifyInstance) => void | Promise<void>
}

/** `body/username must be string`, without the value. Names of unknown properties are input too, so it lists the known ones. */
const validationText = (error: FastifyError, schema: FastifySchema | undefined): string | undefined => {
  const first = error.validation?.[0]
  if (first === undefined) return undefined
  const context = error.validationContext ?? 'request'
  const text = `${context}${first.instancePath} ${first.message ?? 'is not valid'}`
  if (first.keyword !== 'additionalProperties' || first.instancePath !== '') return text
  const known = propertiesOf(schema?.[context as keyof FastifySchema])
  return known.length === 0 ? text : `${text} besides ${known.join(', ')}`
}

const propertiesOf = (schema: unknown): string[] =>
  typeof schema === 'object' && schema !== null && 'properties' in schema ? Object.keys(schema.properties ?? {}) : []

const CODES: Record<string, new (details: { cause: unknown; reason: string }) => GatewayError> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: UnsupportedMedia,
  FST_ERR_CTP_BODY_TOO_LARGE: BodyTooLarge
}

const toRefusal = (error: FastifyError, schema: FastifySchema | undefined): GatewayError => {
  if (error instanceof GatewayError) return error
  const message = validationText(error, schema)
  // An id that cannot exist is no different from one that does not.
  if (error.validationContext === 'params') return new NotFound({ reason: 'no-endpoint', cause: error })
  if (message !== undefined) return new BadRequest({ message, reason: 'invalid-request', cause: error })
  const known = CODES[error.code]
  if (known !== undefined) return new known({ cause: error, reason: 'bad-body' })
  const status = error.statusCode ?? 500
  return status >= 400 && status < 500 ? new BadRequest({ cause: error, reason: 'bad-body' }) : asGatewayError(error)
}

type ValidatorFactory = ReturnType<typeof buildValidators>
type SerializerFactory = ReturnType<typeof buildSerializers>

/** Compiling all schemas takes longer than the rest of the start, and most endpoints are used rarely, so it is done on first use. */
const whenAsked =
  <Definition, Compiled extends ((data: never) => unknown) & { errors?: unknown }>(
    compile: (definition: Definition) => Compiled
  ) =>
  (definition: Definition): Compiled => {
    let compiled: Compiled | undefined
    const run = (data: never) => {
      compiled ??= compile(definition)
      const result = compiled(data)
      run.errors = compiled.errors
      return result
    }
    run.errors = undefined as unknown
    return run as Compiled
  }

const compileWhenAsked: ValidatorFactory = (schemas, options) => whenAsked(buildValidators()(schemas, options))
const serializeWhenAsked: SerializerFactory = (schemas, options) => whenAsked(buildSerializers()(schemas, options))

export const createOwnEndpoints = async (options: OwnEndpointsOptions) => {
  // Fastify creates request objects of its own; this maps each to its exchange.
  const asked = new AsyncLocalStorage<Exchange>()
  const app: FastifyInstance = Fastify({
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT_BYTES,
    // More than any target has, because Fastify's own response to a longer parameter repeats the path.
    routerOptions: { maxParamLength: 16 * 1024 },
    // Nothing is coerced, dropped or filled in silently.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: true, allErrors: false } },
    schemaController: { compilersFactory: { buildValidator: compileWhenAsked, buildSerializer: serializeWhenAsked } }
  })
  // Bodies are JSON; Fastify would also read plain text.
  app.removeContentTypeParser('text/plain')
  // Set by the first hook, before anything else sees the request.
  app.decorateRequest('exchange', undefined as unknown as Exchange)
  app.addHook('onRequest', async (request, reply) => {
    const exchange = asked.getStore()
    if (exchange === undefined) throw new Error('a request that did not come through the gateway')
    request.exchange = exchange
    const headers = ownHeaders(exchange, options)
    for (let i = 0; i < headers.length; i += 2) reply.header(headers[i] ?? '', headers[i + 1])
    reply.header('cache-control', 'no-store')
  })
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    reply.hijack()
    options.refuse(request.exchange, toRefusal(error, request.routeOptions.schema))
  })
  app.setNotFoundHandler(() => {
    throw new NoRoute({ reason: 'no-endpoint' })
  })
  await app.register(swagger, openapiOptions)
  await options.register(app)
  await app.ready()

  /** No endpoint takes OPTIONS, so a method that Fastify does not know is refused in the same way. */
  const methodOf = ({ request: { method } }: Exchange) =>
    (app.supportedMethods.includes(method) ? method : 'OPTIONS') as InjectedMethod

  const ask = (exchange: Exchange, payload: Buffer | undefined) => {
    const request = { method: methodOf(exchange), ...requestOf(exchange, payload !== undefined) }
    asked.run(exchange, () =>
      app.inject({ ...request, ...(payload && { payload }) }, (error, response) =>
        contain(exchange, () => {
          if (response !== undefined) pass(exchange, response)
          else options.refuse(exchange, asGatewayError(error))
        })
      )
    )
  }

  return {
    app,
    handle(exchange: Exchange) {
      if (!hasBody(exchange.head)) return ask(exchange, undefined)
      readBody(exchange, { maxBytes: BODY_LIMIT_BYTES, timeoutMs: BODY_TIMEOUT_MS })
        .then(
          body => {
            const refusal = options.checkAgain?.(exchange)
            if (refusal === undefined) ask(exchange, body.length === 0 ? undefined : body)
            else options.refuse(exchange, refusal)
          },
          error => options.refuse(exchange, asGatewayError(error))
        )
        .catch(error => exchange.onThrown(error))
    },
    close: (): PromiseLike<void> => app.close()
  }
}

type InjectedMethod = NonNullable<InjectOptions['method']>

/** The endpoint that was matched handles the request, with or without a trailing slash. */
const requestOf = ({ request, path, query }: Exchange, hasPayload: boolean): InjectOptions => {
  const headers: Record<string, string | undefined> = Object.create(null)
  // Otherwise the library that injects requests would name itself.
  headers['user-agent'] = undefined
  for (let i = 0; i < request.fields.length; i += 2) {
    const name = (request.fields[i] ?? '').toLowerCase()
    const before = headers[name]
    if (OF_THE_MESSAGE.has(name) || (name === 'content-type' && !hasPayload)) continue
    headers[name] =
      before === undefined
        ? (request.fields[i + 1] ?? '')
        : before + (name === 'cookie' ? '; ' : ', ') + (request.fields[i + 1] ?? '')
  }
  return { url: bareOf(path) + encodeRawBytes(query), headers }
}

const bareOf = (path: string): string => (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path)

// Framing fields have been processed; and Fastify would wait for content if there were a type without any.
const OF_THE_MESSAGE: ReadonlySet<string> = new Set(
  'connection content-length expect keep-alive transfer-encoding te trailer upgrade'.split(' ')
)
const OF_THE_RESPONSE: ReadonlySet<string> = new Set(
  'connection content-length date keep-alive transfer-encoding'.split(' ')
)

const pass = (exchange: Exchange, response: LightMyRequestResponse) => {
  const headers: string[] = []
  for (const [name, value] of Object.entries(response.headers)) {
    if (value === undefined || OF_THE_RESPONSE.has(name)) continue
    for (const one of Array.isArray(value) ? value : [value]) headers.push(name, String(one))
  }
  const { statusCode, rawPayload } = response
  const length = exchange.request.method === 'HEAD' ? response.headers['content-length'] : rawPayload.length
  if (statusCode !== 204 && statusCode !== 304 && length !== undefined) headers.push('content-length', String(length))
  exchange.response.whole({ status: statusCode, headers }, rawPayload.toString('latin1'))
}

interface BodyLimits {
  readonly maxBytes: number
  readonly timeoutMs: number
  /** Where the body counts while it arrives. */
  readonly holding?: Holding
}

/** By which the end of that time must be late to count as one after a standstill of this process, in which it read nothing. */
const STANDSTILL_MS = 1000

/** Rejects with 413, 408, 503 if there is no room for it, or 400 if the client has gone. */
export const readBody = async (exchange: Exchange, { maxBytes, timeoutMs, holding }: BodyLimits): Promise<Buffer> => {
  // A length that is too large is refused before the body is requested.
  if (Number(exchange.head.contentLength ?? 0) > maxBytes) throw new BodyTooLarge({ reason: 'body-too-large' })
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const buffer = new BodyBuffer(maxBytes)
  const body: BodyConsumer & Underway = {
    onUpload(chunk) {
      // Nothing is kept of what arrives after the end.
      if (exchange.underway !== body) return
      if (buffer.length + chunk.length > maxBytes) return reject(new BodyTooLarge({ reason: 'body-too-large' }))
      buffer.add(chunk)
      holding?.set(buffer.length)
      if (holding?.isTooMuch()) reject(new Unavailable({ reason: 'no-room' }))
    },
    onUploadEnd: () => resolve(buffer.bytes),
    abort: () => reject(new BadRequest({ reason: 'client-gone' }))
  }
  const giveUp = () => reject(new RequestTimeout({ reason: 'body-too-slow' }))
  let timer: NodeJS.Timeout | undefined
  const watch = () => {
    const dueMs = performance.now() + timeoutMs
    timer = setTimeout(() => {
      if (performance.now() - dueMs >= STANDSTILL_MS) watch()
      // What has arrived is read first: the poll phase comes before setImmediate.
      else setImmediate(giveUp)
    }, timeoutMs)
  }
  watch()
  exchange.underway = body
  // If reading cannot even begin, `promise` must not be rejected later: nothing awaits it, which would end the process.
  try {
    if (exchange.awaitsContinue) exchange.response.interim(100, 'Continue', '')
    exchange.request.read(body)
    return await promise
  } finally {
    clearTimeout(timer)
    buffer.release()
    holding?.close()
    if (exchange.underway === body) exchange.underway = undefined
  }
}
