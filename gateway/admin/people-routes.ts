// Lets Admins find people, change their access and end their sessions and tokens; each change is audited.
import type { FastifyReply } from 'fastify'
import { type Asked, type Endpoints, pagingProperties } from '../http/own-requests.ts'
import type { AccessStatus } from '../identity.ts'
import { loginItemSchema } from '../store/live-logins.ts'
import { tokenItemProperties } from '../store/personal-tokens.ts'
import type { AccessNames, BulkChange, PersonItem } from '../store/users.ts'
import { array, closed, integer, names, object, optional, string, textUpTo } from '../values/json-schema.ts'
import type { AdminParts } from './admin-parts.ts'
import { accessSchema, auditItemSchema, personItemSchema } from './admin-schemas.ts'

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

const changeOf = (maxItems: number, maxLength: number) =>
  optional({ add: names(maxItems, maxLength), remove: names(maxItems, maxLength) })

const bulkSchema = closed(
  {
    ids: {
      type: 'array',
      minItems: 1,
      maxItems: 500,
      uniqueItems: true,
      items: { type: 'integer', minimum: 1, maximum: 2_147_483_647 }
    },
    profiles: changeOf(100, 64),
    areas: changeOf(500, 256),
    areaPrincipal: { ...textUpTo(256), description: 'One of the areas of each of these people' }
  },
  ['profiles', 'areas', 'areaPrincipal']
)

const outcomeSchema = object({
  changed: { ...integer, description: 'Number of people whose access has changed' },
  failed: array(object({ id: integer, code: string }))
})

const eraseSchema = closed({ username: { type: 'string', maxLength: 256, description: 'That of the person, exactly' } })

/** A change that names the ETag it is based on fails if someone else was faster (RFC 9110 §13.1.1). */
const etagOf = (version: number): string => `"${version}"`

const ifMatchSchema = object(
  { 'if-match': { ...string, description: 'The ETag of the person that the change is based on' } },
  ['if-match']
)

/** A proxy that compresses makes an ETag weak (`W/"7"`) or longer (`"7-gzip"`), which leaves the version as it is. */
const versionIn = (tag: string): string | undefined => /^(?:W\/)?"(\d+)(?:[-;]+\w+)?"$/.exec(tag)?.[1]

const conditionOf = (ifMatch: string | undefined): ((version: number) => boolean) | undefined => {
  const wanted = ifMatch?.split(',').map(tag => tag.trim())
  if (wanted === undefined || wanted.includes('*')) return undefined
  return version => wanted.some(tag => versionIn(tag) === String(version))
}

const tokenItemSchema = closed({
  ...tokenItemProperties,
  user: object({ id: integer, username: string, name: string })
})

export const peopleEndpoints = ({ users, unlock, audit, liveLogins, personalTokens }: AdminParts): Endpoints => {
  const load = async (id: number, reply?: FastifyReply): Promise<PersonItem> => {
    const { item, version } = await users.loadItem(id)
    reply?.header('etag', etagOf(version))
    return item
  }
  return {
    'GET /auth/admin/users': {
      summary: 'Lists people, those waiting for access first',
      query: peopleQuery,
      lists: personItemSchema,
      run({ query: { search, accessStatus, disabled }, paging }) {
        const isDisabled = disabled === undefined ? undefined : disabled === 'true'
        const status = accessStatus as AccessStatus | undefined
        return users.listPeople({ search, accessStatus: status, disabled: isDisabled, ...paging })
      }
    },
    'POST /auth/admin/users/access': {
      summary: 'Adds and removes access for many people; each is changed and audited separately',
      body: bulkSchema,
      returns: outcomeSchema,
      run: ({ actor, body }: Asked<BulkChange>) => users.setAccessOfMany(actor, body)
    },
    'GET /auth/admin/users/:id': {
      summary: 'Returns a person',
      returns: personItemSchema,
      run: ({ id, reply }) => load(id, reply)
    },
    'GET /auth/admin/users/:id/audit': {
      summary: 'Lists the audit entries by and about a person, newest first',
      lists: auditItemSchema,
      async run({ id, paging }) {
        await load(id)
        return audit.list({ user: id, ...paging })
      }
    },
    'PUT /auth/admin/users/:id/access': {
      summary: 'Assigns exactly this access; earlier tokens become stale',
      headers: ifMatchSchema,
      body: accessSchema,
      returns: personItemSchema,
      async run({ actor, id, body, reply }: Asked<AccessNames>) {
        await users.setAccess(actor, id, body, conditionOf(reply.request.headers['if-match']))
        return load(id, reply)
      }
    },
    'POST /auth/admin/users/:id/revoke': {
      summary: 'Ends every token of the person',
      run: ({ actor, id }) => users.revokePerson(actor, id)
    },
    'POST /auth/admin/users/:id/disable': {
      summary: 'Ends every token and lets the person in no more',
      run: ({ actor, id }) => users.disablePerson(actor, id)
    },
    'POST /auth/admin/users/:id/unlock': {
      summary: 'Releases an account that the login throttle holds back',
      run: ({ actor, id }) => unlock(actor, id)
    },
    'POST /auth/admin/users/:id/enable': {
      summary: 'Lets the person log in again',
      run: ({ actor, id }) => users.enablePerson(actor, id)
    },
    'POST /auth/admin/users/:id/erase': {
      summary: 'Ends every token of the person and removes what identifies them; not for Admins',
      body: eraseSchema,
      run: ({ actor, id, body }: Asked<{ username: string }>) => users.erasePerson(actor, id, body.username)
    },
    'GET /auth/admin/users/:id/sessions': {
      summary: 'Lists the live sessions of a person, the most recently used first',
      lists: loginItemSchema,
      async run({ exchange, id, paging }) {
        await load(id)
        return liveLogins.list(id, { tokenId: exchange.identity?.tokenId ?? '', ...paging })
      }
    },
    'DELETE /auth/admin/users/:id/sessions': {
      summary: 'Ends all sessions of a person, but not the access tokens',
      async run({ actor, id }) {
        await load(id)
        return liveLogins.endAll(actor, id)
      }
    },
    'GET /auth/admin/tokens': {
      summary: 'Lists the live access tokens of all people, newest first',
      lists: tokenItemSchema,
      run: ({ paging }) => personalTokens.list(paging)
    },
    'DELETE /auth/admin/tokens/:id': {
      summary: 'Ends an access token',
      run: ({ actor, id }) => personalTokens.end(actor, id)
    }
  }
}
