// Lists the header lines that a backend receives for a request, with placeholders for what only a live request knows.
import type { NamedAsker } from '../explain/askers.ts'
import type { User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import type { IdentityHeader } from '../routes/upstream.ts'
import { encodeList, encodeValue } from '../upstream/headers/identity-headers.ts'

export interface ReceivedHeaders {
  /** `name: value`; parts in angle brackets vary by request. */
  readonly lines: readonly string[]
  /** Names that do not pass from the client, in addition to those that never do. */
  readonly removed: readonly string[]
}

const ATTRIBUTES = [
  ...(['id', 'name', 'email', 'username', 'provider'] as const),
  ...(['profiles', 'areas', 'areaPrincipal', 'accessStatus'] as const)
]
const IDENTITY: readonly IdentityHeader[] = ATTRIBUTES.map(attribute => ({
  name: `x-user-${attribute.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`,
  attribute
}))

/** The headers of a request that this route forwards for this person. */
export const receivedHeaders = (route: Route, asker: NamedAsker): ReceivedHeaders => {
  const { upstream } = route
  if (upstream === undefined) return { lines: [], removed: [] }
  const hasIdentity = !route.public && route.socketio === undefined
  const [standard, own] = hasIdentity ? [IDENTITY, upstream.identityHeaders ?? []] : [[], []]
  const prefix = route.stripPrefix === undefined || route.stripPrefix === '/' ? [] : [route.stripPrefix]
  const set = upstream.requestHeaders?.set ?? []
  return {
    lines: [
      `host: ${upstream.preserveHost ? '<host asked for>' : upstream.targets[0]?.authority}`,
      ...((route.forwardToken || route.ownAuthorization) && hasIdentity
        ? ['authorization: <as the client sent it>']
        : []),
      'x-forwarded-for: <client address>',
      'x-forwarded-proto: <http or https>',
      'x-forwarded-host: <host asked for>',
      ...prefix.map(path => `x-forwarded-prefix: ${path}`),
      'x-real-ip: <client address>',
      'x-request-id: <request id>',
      ...identityLines(standard, asker),
      ...(upstream.assertion && hasIdentity ? ['x-user-assertion: <signed assertion>'] : []),
      ...set.map(([name, value]) => `${name}: ${value}`),
      ...identityLines(own, asker)
    ],
    removed: [
      ...set.map(([name]) => name),
      ...(upstream.identityHeaders ?? []).map(({ name }) => name),
      ...(upstream.requestHeaders?.remove ?? [])
    ]
  }
}

const identityLines = (headers: readonly IdentityHeader[], { user }: NamedAsker): string[] =>
  headers.flatMap(({ name, attribute }) => {
    const value = valueFor(attribute, user ?? {})
    return value === '' ? [] : [`${name}: ${value}`]
  })

const valueFor = (attribute: IdentityHeader['attribute'], known: Partial<User>): string => {
  if (attribute === 'login') {
    const { provider, username } = known
    return provider === undefined || username === undefined
      ? '<provider:username>'
      : encodeValue(`${provider}:${username}`)
  }
  const value = known[attribute]
  if (value === undefined) return `<${attribute}>`
  return typeof value === 'object' ? encodeList(value) : encodeValue(String(value))
}
