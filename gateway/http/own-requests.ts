// Describes what the gateway's own endpoints accept and return, as JSON Schema: ids, pages, people, forms, and the actor for the audit log.
import type { FastifyInstance } from 'fastify'
import type { Identity } from '../identity.ts'
import { array, closed, integer, object, optional, string } from '../values/json-schema.ts'
import { type Exchange, identityOf } from './exchange.ts'

/** The person or client that sent the request, for the audit log. */
export const actorOf = ({ exchange }: { exchange: Exchange }) => {
  const { user }: Identity = identityOf(exchange)
  return { id: user.id, username: user.username, requestId: exchange.requestId, ip: exchange.client.address }
}

/** Ids are positive int4 values, written in digits. */
export const idParams = object({ id: { type: 'string', pattern: '^[1-9][0-9]{0,9}$' } })

// Query values are strings; nothing is coerced.
export const pagingProperties = {
  page: { type: 'string', pattern: '^[1-9][0-9]{0,5}$', description: 'From 1' },
  pageSize: { type: 'string', pattern: '^(?:[1-9][0-9]?|1[0-9][0-9]|200)$', description: '1 to 200, default 50' }
} as const

/** The query of a paginated list. */
export const pagingQuery = optional(pagingProperties)

export interface PagingQuery {
  page?: string
  pageSize?: string
}

export const paging = ({ page = '1', pageSize = '50' }: PagingQuery) => ({
  page: Number(page),
  pageSize: Number(pageSize)
})

/** One page of a list that is in memory. */
export const pageFrom = <T>(all: readonly T[], query: PagingQuery) => {
  const { page, pageSize } = paging(query)
  return { items: all.slice((page - 1) * pageSize, page * pageSize), page, pageSize, total: all.length }
}

export const pageOf = (items: object, more: Readonly<Record<string, object>> = {}) =>
  object({ items: array(items), page: integer, pageSize: integer, total: integer, ...more })

/** The description of an endpoint that returns a page of such items. */
export const listSchema = (summary: string, items: object) => ({
  summary,
  querystring: pagingQuery,
  response: { 200: pageOf(items) }
})

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

export const nothing = { type: 'null', description: 'Done' } as const

type Actor = ReturnType<typeof actorOf>

/** A change to one thing by its id, in the name of who asks for it, with an empty response. @param name method and path */
export const changeById = (
  app: FastifyInstance,
  name: `${'POST' | 'DELETE'} /${string}/:id${string}`,
  summary: string,
  change: (actor: Actor, id: number) => Promise<unknown>
): void => {
  const [method = '', url = ''] = name.split(' ')
  app.route<{ Params: { id: string } }>({
    method: method as 'POST',
    url,
    schema: { summary, params: idParams, response: { 204: nothing } },
    handler: async (request, reply) => {
      await change(actorOf(request), Number(request.params.id))
      return reply.code(204).send()
    }
  })
}

export const FORM = 'application/x-www-form-urlencoded'

/** Reads form bodies as text on these routes only; elsewhere a form would let another site's page post on behalf of its visitor. */
export const withForms = (app: FastifyInstance, routes: (scope: FastifyInstance) => void): void => {
  app.register(async scope => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, body, done) => done(null, body))
    scope.addContentTypeParser('*', (_request, payload, done) => {
      payload.resume()
      payload.on('end', () => done(null, undefined))
    })
    routes(scope)
  })
}

/** An error in the format of OAuth 2.0 (RFC 6749 §5.2). */
export const oauthErrorSchema = object({ error: string, error_description: string })
