// The gateway's own endpoints run in Fastify: bodies parsed and judged by schema, answers serialised, errors told one way.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import swagger from '@fastify/swagger'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
  LogController
} from 'fastify'
import {
  BadRequest,
  BodyTooLarge,
  type GatewayError,
  Internal,
  NotFound,
  GatewayError as Refusal,
  RequestTimeout,
  UnsupportedMedia
} from '../errors.ts'
import { type AnswerOptions, ownHeaders } from './answer.ts'
import type { Exchange } from './exchange.ts'
import { hasBody } from './head.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The request's way through the gateway so far: its id, client, route and identity. */
    exchange: Exchange
  }
}

const BODY_LIMIT_BYTES = 64 * 1024
const BODY_TIMEOUT_MS = 30_000

interface OwnEndpointsOptions extends AnswerOptions {
  log: FastifyBaseLogger
  refuse: (exchange: Exchange, error: GatewayError) => void
  /** How long a body may take to arrive. */
  bodyTimeoutMs?: number
  /** Registers the endpoints, in the order of the contract. */
  register: (app: FastifyInstance) => void | Promise<void>
}

interface OwnEndpoints {
  handle(exchange: Exchange): void
  readonly app: FastifyInstance
  close(): Promise<void>
}

/** A validation message names the place and the rule, never the value (`body/username must be string`). */
const validationText = (error: FastifyError): string | undefined => {
  const first = error.validation?.[0]
  if (first === undefined) return undefined
  return `${error.validationContext ?? 'request'}${first.instancePath} ${first.message ?? 'is not valid'}`
}

const CODES: Record<string, new (details: { cause: unknown; reason: string }) => GatewayError> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: UnsupportedMedia,
  FST_ERR_CTP_BODY_TOO_LARGE: BodyTooLarge
}

const toRefusal = (error: FastifyError): GatewayError => {
  if (error instanceof Refusal) return error
  const message = validationText(error)
  if (message !== undefined) return new BadRequest({ message, reason: 'invalid-request', cause: error })
  const known = CODES[error.code]
  if (known !== undefined) return new known({ cause: error, reason: 'bad-body' })
  const status = error.statusCode ?? 500
  return status >= 400 && status < 500
    ? new BadRequest({ cause: error, reason: 'bad-body' })
    : new Internal({ cause: error, reason: 'internal-error' })
}

export const createOwnEndpoints = async (options: OwnEndpointsOptions): Promise<OwnEndpoints> => {
  const exchanges = new WeakMap<IncomingMessage, Exchange>()
  let handler: ((req: IncomingMessage, res: ServerResponse) => void) | undefined
  // Never listens: requests are handed over after the gateway's own steps.
  const unusedServer = {
    on: () => unusedServer,
    once: () => unusedServer,
    close: (done?: () => void) => done?.()
  } as unknown as Server
  const app: FastifyInstance = Fastify({
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT_BYTES,
    // Nothing is coerced, dropped or filled in silently.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: true, allErrors: false } },
    serverFactory: onRequest => {
      handler = onRequest
      return unusedServer
    }
  })
  app.decorateRequest('exchange', {
    getter(this: FastifyRequest) {
      const exchange = exchanges.get(this.raw)
      if (exchange === undefined) throw new Error('a request that did not come through the gateway')
      return exchange
    }
  })
  app.addHook('onRequest', async (request, reply) => {
    const headers = ownHeaders(request.exchange, options)
    for (let i = 0; i < headers.length; i += 2) reply.header(headers[i] ?? '', headers[i + 1])
    reply.header('cache-control', 'no-store')
  })
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    reply.hijack()
    options.refuse(request.exchange, toRefusal(error))
  })
  app.setNotFoundHandler(() => {
    throw new NotFound({ reason: 'no-endpoint' })
  })
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Portaria', description: "The gateway's own endpoints", version: '1' },
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } }
    }
  })
  await options.register(app)
  await app.ready()

  const limitBodyTime = (exchange: Exchange) => {
    const timer = setTimeout(() => {
      if (!exchange.req.complete) options.refuse(exchange, new RequestTimeout({ reason: 'body-too-slow' }))
    }, options.bodyTimeoutMs ?? BODY_TIMEOUT_MS)
    exchange.res.on('close', () => clearTimeout(timer))
  }

  return {
    app,
    handle(exchange) {
      const { req, res } = exchange
      exchanges.set(req, exchange)
      // What was matched is what is answered.
      req.url = exchange.path + exchange.query
      if (exchange.awaitsContinue) res.writeContinue()
      if (hasBody(exchange.head)) limitBodyTime(exchange)
      // Fastify waits for the end of what has a type, and this has ended already.
      else if (req.readableEnded) delete req.headers['content-type']
      handler?.(req, res)
    },
    close: async () => {
      await app.close()
    }
  }
}
