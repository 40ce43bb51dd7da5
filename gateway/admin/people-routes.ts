// Lets Admins find people, change their access and end their tokens; each change is audited.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { NotFound } from '../errors.ts'
import {
  actorOf,
  changeById,
  idParams,
  listSchema,
  nothing,
  type PagingQuery,
  pageOf,
  paging,
  pagingProperties
} from '../http/own-requests.ts'
import type { AccessStatus } from '../identity.ts'
import type { AuditItem, AuditQuery } from '../store/audit-list.ts'
import type { Page } from '../store/query.ts'
import type { AccessNames, Actor, PersonItem, Users } from '../store/users.ts'
import { closed, optional } from '../values/json-schema.ts'
import { accessSchema, auditItemSchema, personItemSchema } from './admin-schemas.ts'

export interface PeopleRoutesParts {
  users: Pick<
    Users,
    'listPeople' | 'loadItem' | 'setAccess' | 'revokePerson' | 'disablePerson' | 'enablePerson' | 'erasePerson'
  >
  /** Releases the person's account from the login throttle. */
  unlock: (actor: Actor, id: number) => Promise<void>
  listAudit: (filter: AuditQuery) => Promise<Page<AuditItem>>
}

interface PeopleQuerystring extends PagingQuery {
  search?: string
  accessStatus?: AccessStatus
  disabled?: 'true' | 'false'
}

type ById = { Params: { id: string } }

const peopleQuery = optional({
  search: {
    type: 'string',
    maxLength: 256,
    description: 'Words that must each be part of the name, username or e-mail address; case and accents are ignored'
  },
  accessStatus: { type: 'string', enum: ['assigned', 'unassigned'] },
  disabled: {
    type: 'string',
    enum: ['true', 'false'],
    description: 'Only people who are disabled, or only those who are not'
  },
  ...pagingProperties
})

const eraseSchema = closed({ username: { type: 'string', maxLength: 256, description: 'That of the person, exactly' } })

/** A change that names the ETag it is based on fails if someone else was faster (RFC 9110 §13.1.1). */
const etagOf = (version: number): string => `"${version}"`

const conditionOf = ({ headers }: FastifyRequest): ((version: number) => boolean) | undefined => {
  const wanted = headers['if-match']?.split(',').map(tag => tag.trim())
  return wanted === undefined || wanted.includes('*') ? undefined : version => wanted.includes(etagOf(version))
}

export const peopleRoutes = (app: FastifyInstance, { users, unlock, listAudit }: PeopleRoutesParts): void => {
  const load = async (id: string, reply?: FastifyReply): Promise<PersonItem> => {
    const found = await users.loadItem(Number(id))
    if (found === undefined) throw new NotFound({ reason: 'no-person' })
    reply?.header('etag', etagOf(found.version))
    return found.item
  }

  app.get<{ Querystring: PeopleQuerystring }>(
    '/auth/admin/users',
    {
      schema: {
        summary: 'Lists people, those waiting for access first',
        querystring: peopleQuery,
        response: { 200: pageOf(personItemSchema) }
      }
    },
    async ({ query }) => {
      const { search, accessStatus } = query
      const disabled = query.disabled === undefined ? undefined : query.disabled === 'true'
      return users.listPeople({ search, accessStatus, disabled, ...paging(query) })
    }
  )

  app.get<ById>(
    '/auth/admin/users/:id',
    { schema: { summary: 'Returns a person', params: idParams, response: { 200: personItemSchema } } },
    async ({ params }, reply) => load(params.id, reply)
  )

  app.get<ById & { Querystring: PagingQuery }>(
    '/auth/admin/users/:id/audit',
    {
      schema: {
        ...listSchema('Lists the audit entries by and about a person, newest first', auditItemSchema),
        params: idParams
      }
    },
    async ({ params, query }) => {
      await load(params.id)
      return listAudit({ user: Number(params.id), ...paging(query) })
    }
  )

  app.put<ById & { Body: AccessNames }>(
    '/auth/admin/users/:id/access',
    {
      schema: {
        summary: 'Assigns exactly this access; earlier tokens become stale',
        params: idParams,
        body: accessSchema,
        response: { 200: personItemSchema }
      }
    },
    async (request, reply) => {
      const { params, body } = request
      await users.setAccess(actorOf(request), Number(params.id), body, conditionOf(request))
      return load(params.id, reply)
    }
  )

  const person = '/auth/admin/users/:id'
  changeById(app, `POST ${person}/revoke`, 'Ends every token of the person', users.revokePerson)
  changeById(app, `POST ${person}/disable`, 'Ends every token and lets the person in no more', users.disablePerson)
  changeById(app, `POST ${person}/unlock`, 'Releases an account that the login throttle holds back', unlock)
  changeById(app, `POST ${person}/enable`, 'Lets the person log in again', users.enablePerson)

  app.post<ById & { Body: { username: string } }>(
    '/auth/admin/users/:id/erase',
    {
      schema: {
        summary: 'Ends every token of the person and removes what identifies them; not for Admins',
        params: idParams,
        body: eraseSchema,
        response: { 204: nothing }
      }
    },
    async (request, reply) => {
      await users.erasePerson(actorOf(request), Number(request.params.id), request.body.username)
      return reply.code(204).send()
    }
  )
}
