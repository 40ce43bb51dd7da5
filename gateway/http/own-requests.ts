// Registers own endpoints that are written as rows, and describes them as OpenAPI: what they accept and return, their errors, who may ask.
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { MethodNotAllowed } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { ownRoutes } from '../routes/own-routes.ts'
import { array, closed, integer, object, optional, string } from '../values/json-schema.ts'
import { type Exchange, identityOf } from './exchange.ts'

/** The person or client that sent the request, for the audit log. */
const actorOf = ({ exchange }: { exchange: Exchange }) => {
  const { user, version }: Identity = identityOf(exchange)
  return { id: user.id, username: user.username, requestId: exchange.requestId, ip: exchange.client.address, version }
}

/** Ids are positive int4 values, written in digits. */
const idParams = object({ id: { type: 'string', pattern: '^[1-9][0-9]{0,9}$' } })

// Query values are strings; nothing is coerced.
export const pagingProperties = {
  page: { type: 'string', pattern: '^[1-9][0-9]{0,5}$', description: 'From 1' },
  pageSize: { type: 'string', pattern: '^(?:[1-9][0-9]?|1[0-9][0-9]|200)$', description: '1 to 200, default 50' }
} as const

/** The query of a paginated list. */
export const pagingQuery = optional(pagingProperties)

const paging = ({ page = '1', pageSize = '50' }: Asked['query']) => ({
  page: Number(page),
  pageSize: Number(pageSize)
})

/** One page of a list that is in memory. */
export const pageFrom = <T>(all: readonly T[], { page, pageSize }: Asked['paging']) => ({
  items: all.slice((page - 1) * pageSize, page * pageSize),
  page,
  pageSize,
  total: all.length
})

export const pageOf = (items: object, more: Readonly<Record<string, object>> = {}) =>
  object({ items: array(items), page: integer, pageSize: integer, total: integer, ...more })

/** Of a person; see `User`. */
export const userProperties = {
  id: integer,
  name: string,
  email: string,
  username: string,
  provider: { type: 'string', enum: ['ldap', 'cloudidp', 'client'] },
  perfis: array(string),
  profiles: array(string),
  areas: array(string),
  areaPrincipal: string,
  accessStatus: { type: 'string', enum: ['assigned', 'unassigned'] }
} as const

export const userSchema = closed(userProperties)

export const tokenAnswerSchema = closed({ token: string, user: userSchema })

interface Contents {
  Params: { id?: string }
  Querystring: Readonly<Record<string, string | undefined>>
}

/** A request at an endpoint that is written as a row, after validation. */
export interface Asked<Body = unknown> {
  readonly exchange: Exchange
  readonly actor: ReturnType<typeof actorOf>
  readonly params: Readonly<Contents['Params']>
  /** From `params`; NaN if that has none. */
  readonly id: number
  readonly query: Contents['Querystring']
  readonly paging: ReturnType<typeof paging>
  readonly body: Body
  readonly reply: FastifyReply
}

/** What an endpoint accepts, as JSON Schema, what it returns, and what it does. */
interface Endpoint {
  readonly summary: string
  readonly params?: object
  readonly query?: object
  readonly headers?: object
  readonly body?: object
  /** With status 200: this, or a page of such items, or text of this media type. */
  readonly returns?: object
  readonly lists?: object
  readonly produces?: string
  /** With status 201. Without any of these four, it returns 204. */
  readonly creates?: object
  run(asked: Asked<unknown>): unknown
}

export type Endpoints = Readonly<Record<`${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`, Endpoint>>

const nothing = { type: 'null', description: 'Done' }

const statusOf = ({ returns, lists, produces, creates }: Endpoint): number =>
  creates !== undefined ? 201 : (returns ?? lists ?? produces) === undefined ? 204 : 200

const schemaOf = (path: string, endpoint: Endpoint) => {
  const { summary, params, query, headers, body, returns, lists, produces, creates } = endpoint
  const accepted = query ?? (lists && pagingQuery)
  const returned = returns ?? (lists && pageOf(lists)) ?? creates ?? nothing
  return {
    summary,
    ...(path.includes('/:id') && { params: params ?? idParams }),
    ...(accepted && { querystring: accepted }),
    ...(headers && { headers }),
    ...(body && { body }),
    ...(produces ? { produces: [produces] } : { response: { [statusOf(endpoint)]: returned } })
  }
}

export const addEndpoints = (app: FastifyInstance, endpoints: Endpoints): void => {
  for (const [name, endpoint] of Object.entries(endpoints)) {
    const [method = '', url = ''] = name.split(' ')
    const status = statusOf(endpoint)
    app.route<Contents>({
      method,
      url,
      schema: schemaOf(url, endpoint),
      async handler(request, reply) {
        const { exchange, params, query, body } = request
        const asked = { exchange, params, query, body, reply, actor: actorOf(request) }
        const result = await endpoint.run({ ...asked, id: Number(params.id), paging: paging(query) })
        return reply.code(status).send(status === 204 ? undefined : result)
      }
    })
  }
}

/** For paths below a route that takes any method: those that an endpoint lacks are 405, not 404 (RFC 9110 §15.5.6). */
export const refuseOtherMethods = (app: FastifyInstance, endpoints: Endpoints): void => {
  for (const [url = '', names] of Map.groupBy(Object.keys(endpoints), name => name.split(' ')[1])) {
    const allowed = names.map(name => name.split(' ')[0] ?? '')
    if (allowed.includes('GET')) allowed.push('HEAD')
    const headers = { allow: allowed.sort().join(', ') }
    app.route({
      method: app.supportedMethods.filter(method => !allowed.includes(method)),
      url,
      exposeHeadRoute: false,
      schema: { hide: true },
      // Before a body is looked at, as elsewhere.
      async onRequest() {
        throw new MethodNotAllowed({ reason: 'method', headers })
      },
      handler: () => undefined
    })
  }
}

export const FORM = 'application/x-www-form-urlencoded'

/** Validates nothing: what the schema of an endpoint accepts is for the description, and the endpoint itself checks it. */
export const describeOnly = () => () => true

/** Reads form bodies as text on these routes only; elsewhere a form would let another site's page post on behalf of its visitor. */
export const withForms = (app: FastifyInstance, routes: (scope: FastifyInstance) => void): void => {
  app.register(async scope => {
    scope.setValidatorCompiler(describeOnly)
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, body, done) => done(null, body))
    scope.addContentTypeParser('*', (_request, payload, done) => {
      payload.resume()
      payload.on('end', () => done(null, undefined))
    })
    routes(scope)
  })
}

/** The response of an endpoint that sends somewhere else. */
export const REDIRECT = { 302: { type: 'null', description: 'A redirect' } } as const

/** An error in the format of OAuth 2.0 (RFC 6749 §5.2). */
export const oauthErrorSchema = object({ error: string, error_description: string })

const PUBLIC: ReadonlySet<string> = new Set(ownRoutes().flatMap(route => (route.public ? [route.id] : [])))

const ERRORS = {
  description: 'The request was refused',
  content: {
    'application/json': {
      schema: object({ statusCode: integer, code: string, error: string, message: string, requestId: string })
    }
  }
}

export const openapiOptions: FastifyDynamicSwaggerOptions = {
  openapi: {
    openapi: '3.1.0',
    info: { title: 'Portaria', description: "The gateway's own endpoints", version: '1' },
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } }
  },
  transform: ({ schema, url, route }) => ({
    url,
    schema: {
      ...schema,
      ...(!PUBLIC.has(`${route.method} ${url}`) && { security: [{ bearer: [] }] }),
      response: { ...(schema.produces && textOf(schema.produces)), ...(schema.response as object), default: ERRORS }
    }
  })
}

/** The response of an endpoint that sends a page, a script or a table. */
const textOf = (mediaTypes: readonly string[]) => ({
  200: {
    description: 'The document',
    content: Object.fromEntries(mediaTypes.map(type => [type, { schema: { type: 'string' } }]))
  }
})
