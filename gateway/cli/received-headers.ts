// Lists the header lines that a backend receives for a request, with placeholders for what only a live request knows.
import type { NamedAsker } from '../explain/askers.ts'
import { LOOP_FIELD } from '../http/fields.ts'
import type { User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import { requestRulesOf } from '../upstream/headers/header-rules.ts'
import { identityHeaderBlock } from '../upstream/headers/identity-headers.ts'

export interface ReceivedHeaders {
  /** `name: value`; parts in angle brackets vary by request. */
  readonly lines: readonly string[]
  /** Names that do not pass from the client, in addition to those that never do. */
  readonly removed: readonly string[]
}

const PLACEHOLDERS = {
  id: '<id>',
  name: '<name>',
  email: '<email>',
  username: '<username>',
  provider: '<provider>',
  profiles: ['<profiles>'],
  areas: ['<areas>'],
  areaPrincipal: '<areaPrincipal>',
  accessStatus: '<accessStatus>'
}

/** The headers of a request that this route forwards for this person. */
export const receivedHeaders = (route: Route, asker: NamedAsker): ReceivedHeaders => {
  const { upstream } = route
  if (upstream === undefined) return { lines: [], removed: [] }
  // Placeholders are text where a person has a number or one of a few words.
  const user = { ...PLACEHOLDERS, ...asker.user } as unknown as User
  const hasIdentity = !route.public && route.socketio === undefined
  const passesToken = hasIdentity && (route.forwardToken || route.ownAuthorization)
  const prefix = route.stripPrefix === undefined || route.stripPrefix === '/' ? '' : route.stripPrefix
  const { identityHeaders = [] } = upstream
  const { set, remove } = upstream.requestHeaders ?? { set: [], remove: [] }
  const rules = requestRulesOf(upstream)
  const lines = [
    `host: ${upstream.preserveHost ? '<host asked for>' : upstream.targets[0]?.authority}`,
    passesToken ? 'authorization: <as the client sent it>' : '',
    'x-forwarded-for: <client address>',
    'x-forwarded-proto: <http or https>',
    'x-forwarded-host: <host asked for>',
    prefix === '' ? '' : `x-forwarded-prefix: ${prefix}`,
    'x-real-ip: <client address>',
    'x-request-id: <request id>',
    `${LOOP_FIELD}: <gateways that the request has passed>`,
    hasIdentity ? identityHeaderBlock(user) : '',
    upstream.assertion && hasIdentity ? 'x-user-assertion: <signed assertion>' : '',
    rules?.lines ?? '',
    hasIdentity ? (rules?.identityLines({ user }) ?? '') : ''
  ]
  return {
    lines: lines.flatMap(line => line.split('\r\n')).filter(line => line !== ''),
    removed: [...set.map(([name]) => name), ...identityHeaders.map(({ name }) => name), ...remove]
  }
}
