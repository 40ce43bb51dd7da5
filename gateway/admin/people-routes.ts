// Admins find people, give and take their access, and end their tokens; each change is on record.
import type { FastifyInstance } from 'fastify'
import { NotFound } from '../errors.ts'
import { actorOf, idParams, nothing, type PagingQuery, pageOf, paging, pagingProperties } from '../http/own-requests.ts'
import type { AccessStatus } from '../identity.ts'
import type { AuditItem, AuditQuery } from '../store/audit-log.ts'
import type { Page } from '../store/query.ts'
import type { AccessNames, Actor, PersonItem, Users } from '../store/users.ts'
import { accessSchema, auditItemSchema, personItemSchema } from './admin-schemas.ts'

export interface PeopleRoutesParts {
  users: Pick<Users, 'listPeople' | 'loadPerson' | 'setAccess' | 'revokePerson' | 'disablePerson' | 'enablePerson'>
  listAudit: (filter: AuditQuery) => Promise<Page<AuditItem>>
}

type ById = { Params: { id: string } }

const peopleQuery = {
  type: 'object',
  additionalProperties: false,
  properties: {
    search: { type: 'string', maxLength: 256, description: 'Part of a name, username or e-mail' },
    accessStatus: { type: 'string', enum: ['assigned', 'unassigned'] },
    ...pagingProperties
  }
} as const

/** The person as a list shows them. */
const itemOf = (person: {
  user: PersonItem | Omit<PersonItem, 'disabled' | 'lastLoginAt'>
  disabled: boolean
  lastLoginAt: Date | null
}): PersonItem => ({
  ...person.user,
  disabled: person.disabled,
  lastLoginAt: person.lastLoginAt?.toISOString() ?? ''
})

export const peopleRoutes = (app: FastifyInstance, { users, listAudit }: PeopleRoutesParts): void => {
  const load = async (id: string): Promise<PersonItem> => {
    const person = await users.loadPerson(Number(id))
    if (person === undefined || person.user.provider === 'client') throw new NotFound({ reason: 'no-person' })
    return itemOf(person)
  }

  app.get<{ Querystring: PagingQuery & { search?: string; accessStatus?: AccessStatus } }>(
    '/auth/admin/users',
    {
      schema: {
        summary: 'People, unassigned ones easy to find',
        querystring: peopleQuery,
        response: { 200: pageOf(personItemSchema) }
      }
    },
    async ({ query }) => users.listPeople({ search: query.search, accessStatus: query.accessStatus, ...paging(query) })
  )

  app.get<ById>(
    '/auth/admin/users/:id',
    { schema: { summary: 'One person', params: idParams, response: { 200: personItemSchema } } },
    async ({ params }) => load(params.id)
  )

  app.get<ById & { Querystring: PagingQuery }>(
    '/auth/admin/users/:id/audit',
    {
      schema: {
        summary: 'What was done by and to one person, newest first',
        params: idParams,
        querystring: { type: 'object', additionalProperties: false, properties: pagingProperties },
        response: { 200: pageOf(auditItemSchema) }
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
        summary: 'Gives exactly this access; earlier tokens become stale',
        params: idParams,
        body: accessSchema,
        response: { 200: personItemSchema }
      }
    },
    async request => itemOf(await users.setAccess(actorOf(request), Number(request.params.id), request.body))
  )

  const ends = (action: string, summary: string, change: (actor: Actor, id: number) => Promise<void>) =>
    app.post<ById>(
      `/auth/admin/users/:id/${action}`,
      { schema: { summary, params: idParams, response: { 204: nothing } } },
      async (request, reply) => {
        await change(actorOf(request), Number(request.params.id))
        return reply.code(204).send()
      }
    )
  ends('revoke', 'Ends every token of the person', users.revokePerson)
  ends('disable', 'Ends every token and lets the person in no more', users.disablePerson)
  ends('enable', 'Lets the person log in again', users.enablePerson)
}
